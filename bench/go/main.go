// The Go peers of the benchmarks: controller-runtime's fake client, client-go's watch and its informer. A peer reads a line
// of JSON for each round, and answers with lines of JSON; what it gets is checked, and what is wrong ends it.
//
// Usage: peers fake | peers watch KUBECONFIG NAMESPACE | peers informer KUBECONFIG NAMESPACE SELECTOR
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func require(holds bool, format string, args ...any) {
	if !holds {
		panic(fmt.Sprintf(format, args...))
	}
}

// What a round took.
type measured struct {
	Seconds float64 `json:"seconds"`
	// Of all threads, garbage collection included.
	CPU float64 `json:"cpu"`
	// What the peer was told, each change counted.
	Updates int `json:"updates"`
}

func cpu() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// Starts to measure; what it returns ends that.
func measure() func(updates int) measured {
	runtime.GC()
	started, before := time.Now(), cpu()
	return func(updates int) measured {
		return measured{Seconds: time.Since(started).Seconds(), CPU: cpu() - before, Updates: updates}
	}
}

func answer(value any) {
	fmt.Println(string(must(json.Marshal(value))))
}

// Calls run with each order, until there are no more.
func orders[T any](run func(T)) {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var order T
		check(json.Unmarshal(line, &order))
		run(order)
	}
}

func clientset(kubeconfig string) *kubernetes.Clientset {
	config := must(clientcmd.BuildConfigFromFlags("", kubeconfig))
	// The server's bytes are JSON, for whoever asks
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	return must(kubernetes.NewForConfig(config))
}

func main() {
	require(len(os.Args) > 1, "which peer?")
	switch os.Args[1] {
	case "fake":
		fakeWrites()
	case "watch":
		watches(os.Args[2], os.Args[3])
	case "informer":
		informer(os.Args[2], os.Args[3], os.Args[4])
	default:
		panic("no peer " + os.Args[1])
	}
}
