package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// A cluster for one test; it is ready when `serve` has printed its contexts.
func serve(t *testing.T) *kubernetes.Clientset {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	testkit := strings.Fields(os.Getenv("TESTKIT")) // e.g. "npx dispatch-kubeflow-testkit"
	server := exec.Command(testkit[0], append(testkit[1:], "serve", "--kubeconfig", path)...)
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	})
	for lines := bufio.NewScanner(output); lines.Scan() && !strings.Contains(lines.Text(), "contexts:"); {
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(config)
}

func TestAPodPrintsAndEnds(t *testing.T) {
	client, ctx := serve(t), context.Background()
	pods := client.CoreV1().Pods("default")
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Annotations: map[string]string{
			"testkit.dispatch-kubeflow.dev/program": `{"runs":[{"after":500,"code":3}],"output":[{"after":0,"text":"no data\n"}]}`,
		}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "registry.example/train:1"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		pod, err := pods.Get(ctx, "train", metav1.GetOptions{})
		if err != nil || time.Now().After(end) {
			t.Fatal("the pod does not end", err)
		}
		if pod.Status.Phase == corev1.PodFailed {
			break
		}
	}
	log, err := pods.GetLogs("train", &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || string(log) != "no data\n" {
		t.Fatalf("%q, %v", log, err)
	}
}
