package main

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// How many events to wait for, and what the last one shows.
type eventsOrder struct {
	Events int    `json:"events"`
	Last   string `json:"last"`
	// Selects the events, for a watch that is opened for them.
	Labels string `json:"labels"`
}

// client-go's watch alone: each event decoded, from the opening of the watch to the end that the server makes.
func watches(kubeconfig, namespace string) {
	pods := clientset(kubeconfig).CoreV1().Pods(namespace)
	orders(func(order eventsOrder) {
		end := measure()
		watcher := must(pods.Watch(context.Background(), metav1.ListOptions{LabelSelector: order.Labels}))
		count, last := 0, 0
		for event := range watcher.ResultChan() {
			version := must(strconv.Atoi(event.Object.(*corev1.Pod).ResourceVersion))
			require(version > last, "version %d after %d", version, last)
			last = version
			count++
		}
		result := end(count)
		require(count == order.Events, "%d events of %d", count, order.Events)
		require(strconv.Itoa(last) == order.Last, "the last version is %d, not %s", last, order.Last)
		answer(result)
	})
}

// A shared informer with one handler, which stays open; an order is for the events that come next.
func informer(kubeconfig, namespace, selector string) {
	factory := informers.NewSharedInformerFactoryWithOptions(clientset(kubeconfig), 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = selector }))
	pods := factory.Core().V1().Pods().Informer()
	var remaining atomic.Int64
	done := make(chan *corev1.Pod, 1)
	seen := func(object any) {
		if remaining.Add(-1) == 0 {
			done <- object.(*corev1.Pod)
		}
	}
	registered := must(pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, object any) { seen(object) },
	}))
	factory.Start(context.Background().Done())
	require(cache.WaitForCacheSync(make(chan struct{}), registered.HasSynced), "the informer did not sync")
	// Its watch opens after its list
	time.Sleep(500 * time.Millisecond)
	answer("ready")

	orders(func(order eventsOrder) {
		remaining.Store(int64(order.Events))
		end := measure()
		answer("listening")
		pod := <-done
		result := end(order.Events)
		shown := ""
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Waiting != nil {
				shown = strconv.Quote(status.State.Waiting.Message)
			}
		}
		require(strings.Contains(shown, order.Last), "the last pod shows %s, not %s", shown, order.Last)
		answer(result)
	})
}
