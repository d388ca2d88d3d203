package main

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The pods of a round, as JSON, and the merge patch that each of them gets.
type writesOrder struct {
	Namespace string          `json:"namespace"`
	Pods      []corev1.Pod    `json:"pods"`
	Patch     json.RawMessage `json:"patch"`
}

// Creates, patches and deletes each pod; a watcher must have seen every one of these changes, in order.
func fakeWrites() {
	ctx := context.Background()
	store := fake.NewClientBuilder().
		WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}).
		Build()
	orders(func(order writesOrder) {
		expected := len(order.Pods) * 3
		// The fake panics when a watcher is further behind than this
		watch.DefaultChanSize = int32(expected)
		watcher := must(store.Watch(ctx, &corev1.PodList{}, client.InNamespace(order.Namespace)))
		var wanted struct{ Metadata metav1.ObjectMeta }
		check(json.Unmarshal(order.Patch, &wanted))
		names := make([]string, len(order.Pods))
		for index := range order.Pods {
			names[index] = order.Pods[index].Name
			order.Pods[index].Namespace = order.Namespace
		}

		end := measure()
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			for at := range expected {
				event := <-watcher.ResultChan()
				pod := event.Object.(*corev1.Pod)
				kind := [...]watch.EventType{watch.Added, watch.Modified, watch.Deleted}[at%3]
				require(event.Type == kind && pod.Name == names[at/3], "change %d is %s of %s", at, event.Type, pod.Name)
				for key, value := range wanted.Metadata.Labels {
					require(at%3 == 0 || pod.Labels[key] == value, "change %d has labels %v", at, pod.Labels)
				}
			}
		}()
		for index := range order.Pods {
			pod := &order.Pods[index]
			check(store.Create(ctx, pod))
			check(store.Patch(ctx, pod, client.RawPatch(types.MergePatchType, order.Patch)))
			check(store.Delete(ctx, pod, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground)))
		}
		<-seen
		answer(end(expected))
		watcher.Stop()
	})
}
