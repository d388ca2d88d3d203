// What programs in Go do with a cluster through client-go: discovery, typed and dynamic clients, informers, watches, logs,
// leader election, server-side apply. Prints one line of JSON with what it saw.
//
// Usage: clients -kubeconfig FILE [-content MEDIA-TYPE]
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

const namespace = "go-client"
const program = `{"runs":[{"after":2000,"code":0}],"output":[{"after":0,"text":"epoch 1\n"},{"after":1000,"text":"epoch 2\n"}]}`

var trainJobs = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The class of an error, by client-go's own predicates.
func class(err error) string {
	switch {
	case err == nil:
		return "none"
	case apierrors.IsNotFound(err):
		return "NotFound"
	case apierrors.IsAlreadyExists(err):
		return "AlreadyExists"
	case apierrors.IsConflict(err):
		return "Conflict"
	case apierrors.IsForbidden(err):
		return "Forbidden"
	case apierrors.IsInvalid(err):
		return "Invalid"
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return "Expired"
	default:
		return err.Error()
	}
}

func until(ctx context.Context, what string, done func() bool) {
	for !done() {
		select {
		case <-ctx.Done():
			panic(fmt.Errorf("waited too long for %s", what))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig")
	content := flag.String("content", "", "what typed clients send; protobuf by default")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()

	load := func(name string) *clientcmd.ClientConfig {
		config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
			&clientcmd.ClientConfigLoadingRules{ExplicitPath: *kubeconfig},
			&clientcmd.ConfigOverrides{CurrentContext: name})
		return &config
	}
	config := must((*load("admin")).ClientConfig())
	config.QPS, config.Burst = 1000, 1000
	typed := *config
	typed.ContentType = *content
	client := must(kubernetes.NewForConfig(&typed))
	objects := must(dynamic.NewForConfig(config))
	heads := must(metadata.NewForConfig(config))
	seen := map[string]any{}

	// Discovery
	seen["version"] = must(client.Discovery().ServerVersion()).GitVersion
	groups, resources, err := discovery.ServerGroupsAndResources(client.Discovery())
	check(err)
	seen["groups"] = len(groups) > 5
	served := map[string]bool{}
	for _, list := range resources {
		for _, resource := range list.APIResources {
			served[list.GroupVersion+" "+resource.Name] = true
		}
	}
	seen["discovered"] = served["v1 pods"] && served["v1 pods/log"] && served["trainer.kubeflow.org/v1alpha1 trainjobs"]

	// Typed objects: create, conflict, update with retry, patch, apply
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	check(err)
	maps := client.CoreV1().ConfigMaps(namespace)
	created := must(maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"},
		Data:       map[string]string{"a": "1"},
	}, metav1.CreateOptions{}))
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{})
	errorsSeen := []string{class(err)}
	check(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, "settings", metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["b"] = "2"
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	}))
	_, err = maps.Update(ctx, created, metav1.UpdateOptions{})
	errorsSeen = append(errorsSeen, class(err))
	_, err = maps.Get(ctx, "nope", metav1.GetOptions{})
	errorsSeen = append(errorsSeen, class(err))
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "Not_A_Name"}}, metav1.CreateOptions{})
	errorsSeen = append(errorsSeen, class(err))
	nobody := must((*load("nobody")).ClientConfig())
	_, err = must(kubernetes.NewForConfig(nobody)).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	errorsSeen = append(errorsSeen, class(err))
	seen["errors"] = errorsSeen
	must(maps.Patch(ctx, "settings", types.StrategicMergePatchType, []byte(`{"data":{"c":"3"}}`), metav1.PatchOptions{}))
	applied := must(maps.Apply(ctx, corev1apply.ConfigMap("settings", namespace).WithData(map[string]string{"d": "4"}),
		metav1.ApplyOptions{FieldManager: "go-client"}))
	seen["data"] = applied.Data
	head := must(heads.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace).Get(ctx, "settings", metav1.GetOptions{}))
	seen["metadata"] = head.Name

	// Pages
	for index := range 7 {
		must(maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("page-%d", index), Labels: map[string]string{"paged": "true"},
		}}, metav1.CreateOptions{}))
	}
	paged := 0
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, options) }))
	pages.PageSize = 2
	check(pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: "paged=true"}, func(runtime.Object) error { paged++; return nil }))
	seen["paged"] = paged

	// Informers: every pod of the namespace, and TrainJobs by the dynamic client; both list by watching
	var added, updated, deleted, synced atomic.Int32
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods()
	_, err = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	check(err)
	lists := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", namespace, func(options *metav1.ListOptions) {
		options.LabelSelector = "paged=true"
	})
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lists, ObjectType: &corev1.ConfigMap{}, Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(any) { synced.Add(1) }},
	})
	go controller.Run(ctx.Done())
	dynamicFactory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(objects, 0, namespace, nil)
	jobs := dynamicFactory.ForResource(trainJobs)
	jobs.Informer()
	factory.Start(ctx.Done())
	dynamicFactory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced, jobs.Informer().HasSynced, controller.HasSynced) {
		panic(errors.New("the informers do not sync"))
	}
	seen["initial"] = []int{len(store.List()), int(synced.Load())}

	// A TrainJob through the dynamic client, whose pods end by themselves
	annotations := map[string]any{"testkit.dispatch-kubeflow.dev/program": program}
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "trainer.kubeflow.org/v1alpha1",
		"kind":       "TrainJob",
		"metadata":   map[string]any{"name": "go-1"},
		"spec": map[string]any{
			"runtimeRef": map[string]any{"name": "torch-conforming"},
			"trainer":    map[string]any{"numNodes": int64(2)},
			"runtimePatches": []any{map[string]any{
				"manager": "example.com/go-client",
				"trainingRuntimeSpec": map[string]any{"template": map[string]any{"spec": map[string]any{
					"replicatedJobs": []any{map[string]any{"name": "node", "template": map[string]any{"spec": map[string]any{
						"template": map[string]any{"metadata": map[string]any{"annotations": annotations}}}}}}}}},
			}},
		},
	}}
	must(objects.Resource(trainJobs).Namespace(namespace).Create(ctx, job, metav1.CreateOptions{}))
	rank0 := ""
	until(ctx, "rank 0 to run", func() bool {
		list := must(client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
			LabelSelector: "jobset.sigs.k8s.io/jobset-name=go-1,batch.kubernetes.io/job-completion-index=0",
			FieldSelector: fields.OneTermEqualSelector("status.phase", "Running").String(),
		}))
		if len(list.Items) == 1 {
			rank0 = list.Items[0].Name
		}
		return rank0 != ""
	})
	stream := must(client.CoreV1().Pods(namespace).GetLogs(rank0, &corev1.PodLogOptions{Container: "node", Follow: true}).Stream(ctx))
	lines := []string{}
	for scanner := bufio.NewScanner(stream); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	check(stream.Close())
	seen["followed"] = lines
	seen["log"] = string(must(client.CoreV1().Pods(namespace).GetLogs(rank0, &corev1.PodLogOptions{TailLines: new(int64(1))}).DoRaw(ctx)))

	// Waits by a watch for the end
	event := must(watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.Resource(trainJobs).Namespace(namespace).List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects.Resource(trainJobs).Namespace(namespace).Watch(ctx, options)
		},
	}, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		conditions, _, err := unstructured.NestedSlice(event.Object.(*unstructured.Unstructured).Object, "status", "conditions")
		for _, condition := range conditions {
			if fields := condition.(map[string]any); fields["type"] == "Complete" && fields["status"] == "True" {
				return true, nil
			}
		}
		return false, err
	}))
	seen["complete"] = event.Object.(*unstructured.Unstructured).GetName()
	check(objects.Resource(trainJobs).Namespace(namespace).Delete(ctx, "go-1", metav1.DeleteOptions{
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	}))
	until(ctx, "the pods to go", func() bool {
		return len(pods.Informer().GetStore().List()) == 0 && len(jobs.Informer().GetStore().List()) == 0
	})
	seen["informed"] = []any{added.Load(), updated.Load() > 3, deleted.Load()}

	// A built-in Job, typed
	zero := int32(0)
	_, err = client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec: batchv1.JobSpec{
			BackoffLimit: &zero,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"testkit.dispatch-kubeflow.dev/program": `{"runs":[{"after":100,"code":0}]}`}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers:    []corev1.Container{{Name: "main", Image: "busybox", Command: []string{"true"}}},
				},
			},
		},
	}, metav1.CreateOptions{})
	check(err)
	until(ctx, "the Job", func() bool {
		return must(client.BatchV1().Jobs(namespace).Get(ctx, "typed", metav1.GetOptions{})).Status.Succeeded == 1
	})

	// Leader election: the second leads when the first lets go
	lease := func(identity string) (leading *atomic.Bool, stop context.CancelFunc, ended chan struct{}) {
		leading, ended = &atomic.Bool{}, make(chan struct{})
		electing, stop := context.WithCancel(ctx)
		go func() {
			defer close(ended)
			leaderelection.RunOrDie(electing, leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
					Client:     client.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
				},
				LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
				ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(context.Context) { leading.Store(true) },
					OnStoppedLeading: func() { leading.Store(false) },
				},
			})
		}()
		return leading, stop, ended
	}

	first, stopFirst, firstEnded := lease("first")
	until(ctx, "the first leader", first.Load)
	second, stopSecond, secondEnded := lease("second")
	time.Sleep(600 * time.Millisecond)
	one := !second.Load()
	stopFirst()
	<-firstEnded
	until(ctx, "the second leader", second.Load)
	held := must(client.CoordinationV1().Leases(namespace).Get(ctx, "leader", metav1.GetOptions{}))
	seen["leaders"] = []any{one, *held.Spec.HolderIdentity, *held.Spec.LeaseTransitions}
	stopSecond()
	<-secondEnded

	// A namespace takes what it holds with it
	check(client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	until(ctx, "the namespace to go", func() bool {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	discovered := []string{}
	for _, group := range groups {
		if strings.Contains(group.Name, "kubeflow") {
			discovered = append(discovered, group.Name)
		}
	}
	sort.Strings(discovered)
	seen["kubeflow"] = discovered
	check(json.NewEncoder(os.Stdout).Encode(seen))
}
