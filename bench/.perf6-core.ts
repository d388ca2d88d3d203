// pure-core event cost: fold + bound + make + equals
import * as Evidence from "@dispatch-kubeflow/core/decide/Evidence"
import * as Update from "@dispatch-kubeflow/core/decide/Update"
import * as Jobs from "./training-jobs.js"
const [,, J="1000", R="4", N="4000"] = process.argv
const jobs=+J, ranks=+R, n=+N
const v=(o:any,i:number)=>{o.metadata.resourceVersion=String(i);return o}
let rv=5000
const ev: Evidence.Evidence[] = []
for(let j=0;j<jobs;j++){let e=Evidence.empty("team",`run-${j}`);e=Evidence.foldAll(e,[{_tag:"TrainJob",object:Jobs.trainJob(j,ranks) as any,presence:"present",at:1},{_tag:"JobSet",object:Jobs.jobSet(j,ranks) as any,presence:"present",at:1},{_tag:"Job",object:Jobs.job(j,ranks) as any,presence:"present",at:1}]);for(let r=0;r<ranks;r++)e=Evidence.fold(e,{_tag:"Pod",object:v(Jobs.pod(j,r,0),rv++),presence:"present",at:1});ev.push(e)}
const told=ev.map(e=>Update.make(e,Object.keys(e.trainJobs)[0]))
for(let round=0;round<4;round++){
const objs=Array.from({length:n},(_,i)=>v(JSON.parse(JSON.stringify(Jobs.pod(Math.floor(i/ranks)%jobs,i%ranks,i+1))),rv++))
const t={fold:0,bound:0,make:0,eq:0}
const c0=process.cpuUsage()
for(let i=0;i<n;i++){const j=Math.floor(i/ranks)%jobs
let a=process.hrtime.bigint();let e=Evidence.fold(ev[j]!,{_tag:"Pod",object:objs[i],presence:"present",at:1000+i});let b=process.hrtime.bigint();t.fold+=Number(b-a)
e=Evidence.bound(e);a=process.hrtime.bigint();t.bound+=Number(a-b);ev[j]=e
const u=Update.make(e,Object.keys(e.trainJobs)[0]);b=process.hrtime.bigint();t.make+=Number(b-a)
if(!Update.equals(told[j]!,u))told[j]=u
a=process.hrtime.bigint();t.eq+=Number(a-b)}
const c=process.cpuUsage(c0)
console.log(`cpu/event ${((c.user+c.system)/n).toFixed(1)} us `,Object.entries(t).map(([k,x])=>`${k} ${(x/n/1000).toFixed(1)}`).join("  "))}
