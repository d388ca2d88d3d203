import { readFileSync } from "node:fs"
import { Chunk, Effect, Stream, Channel } from "effect"
import * as Core from "@dispatch-kubeflow/core/model/Core"
import * as Ndjson from "../packages/k8s-live/src/internal/Ndjson.js"
import { Readable } from "node:stream"
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as LT from "../packages/k8s-live/src/LiveTransport.js"
const src = readFileSync("bench/live-watch.ts","utf8")
const podSrc = src.slice(src.indexOf("const pod ="), src.indexOf("const serve ="))
const pod = new Function(podSrc.replace(": number): object","") .replace("(index","(index)") + "; return pod")() as (n:number)=>object
const N=20000
const lines = Array.from({length:N},(_,i)=>Buffer.from(JSON.stringify({type:"MODIFIED",object:pod(i)})+"\n"))
const strs = lines.map(l=>l.toString())
const all = Buffer.concat(lines)
const pieces: Buffer[] = []
for (let i=0;i<all.length;i+=65536) pieces.push(all.subarray(i,i+65536))
const time = async (name: string, f: ()=>any) => { const rs:number[]=[]; for (let r=0;r<6;r++){ const t=performance.now(); await f(); rs.push((performance.now()-t)*1000/N)}; rs.sort((a,b)=>a-b); console.log(name.padEnd(40), rs[2].toFixed(1),"us/ev  best", rs[0].toFixed(1)) }
await time("JSON.parse strings", ()=>{ let c=0; for (const s of strs) { JSON.parse(s); c++ } })
await time("splitter over 64K pieces", ()=>{ const s=Ndjson.makeSplitter(); for (const p of pieces) s.push([p]) })
const parsed = strs.slice(0,2000).map(s=>JSON.parse(s).object)
await time("Core.pods.decode (x10)", ()=>{ for(let k=0;k<10;k++) for (const p of parsed) Core.pods.decode(p) })
await time("B utf8Slice", ()=>{ let rest: Buffer|undefined; for (let p of pieces as any[]) { if (rest) { p = Buffer.concat([rest,p]); rest=undefined } let st=0; for(let e=p.indexOf(10);e!==-1;e=p.indexOf(10,st)){ JSON.parse(p.utf8Slice(st,e)); st=e+1 } if (st<p.length) rest=p.subarray(st) } })
await time("B2 latin1Slice", ()=>{ let rest: Buffer|undefined; for (let p of pieces as any[]) { if (rest) { p = Buffer.concat([rest,p]); rest=undefined } let st=0; for(let e=p.indexOf(10);e!==-1;e=p.indexOf(10,st)){ JSON.parse(p.latin1Slice(st,e)); st=e+1 } if (st<p.length) rest=p.subarray(st) } })
const { StringDecoder } = await import("node:string_decoder")
await time("C StringDecoder+slice", ()=>{ const d=new StringDecoder("utf8"); let rest=""; for (const p of pieces) { const t = rest+d.write(p); let st=0; for(let e=t.indexOf("\n");e!==-1;e=t.indexOf("\n",st)){ JSON.parse(t.slice(st,e)); st=e+1 } rest=t.slice(st) } })
await time("C2 TextDecoder+split", ()=>{ const d=new TextDecoder(); let rest=""; for (const p of pieces) { const t = d.decode(p,{stream:true}); const ls=t.split("\n"); ls[0]=rest+ls[0]; rest=ls.pop()!; for (const l of ls) JSON.parse(l) } })
await time("D wrap array parse", ()=>{ const d=new StringDecoder("utf8"); let rest=""; for (const p of pieces) { const t = rest+d.write(p); const e=t.lastIndexOf("\n"); if(e===-1){rest=t;continue} rest=t.slice(e+1); JSON.parse("["+t.slice(0,e).replaceAll("\n",",")+"]") } })
