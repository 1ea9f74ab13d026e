package e2e

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// several is a Pod of two containers, an init container and a sidecar, which ends whenever somebody says so.
func (f *fleet) several(node string) *corev1.Pod {
	pod := f.podOn(node, "several", corev1.RestartPolicyNever)
	runs := func(name, script string) corev1.Container {
		return corev1.Container{
			Name: name, Image: pod.Spec.Containers[0].Image, Command: []string{"/bin/sh", "-c", script},
			Env: []corev1.EnvVar{{Name: "WHO", Value: name}},
		}
	}
	proxy := runs("proxy", "echo \"$WHO `date +%s%N`\"; "+`while ! [ -e /tmp/fall ]; do sleep 0.1; done; rm /tmp/fall; exit 1`)
	proxy.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers = []corev1.Container{proxy, runs("prepare", `echo "$WHO"`)}
	pod.Spec.Containers = []corev1.Container{runs("build", `echo "$WHO"; exec sleep 600`), runs("report", `echo "$WHO"; exec sleep 600`)}
	return pod
}

// readsEachContainersLog has kubectl mean one of a Pod's containers, or all.
func (f *fleet) readsEachContainersLog(node string) {
	pod := f.several(node)
	if err := f.client.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	f.awaitPods(2)
	for container, want := range map[string]string{"build": "build", "report": "report", "prepare": "prepare"} {
		f.awaitLog(want+"\n", "logs", "several", "-c", container)
	}
	f.awaitLog("build\n", "logs", "several") // the first, as kubectl says on its standard error
	f.await("the logs of all", func() (string, bool) {
		got := f.try(nil, "logs", "several", "--all-containers", "--prefix")
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		return got.out + got.err, len(lines) == 4 && slices.Contains(lines, "[pod/several/report] report") && strings.Contains(got.out, "[pod/several/proxy] proxy ")
	})
	if got := f.try(nil, "logs", "several", "-c", "nobody"); got.code == 0 || !strings.Contains(got.err, "container nobody is not valid for pod several") {
		f.Errorf("the log of nobody: %+v", got)
	}
	if got := f.try(nil, "exec", "several", "-c", "report", "--", "/bin/sh", "-c", `echo "$WHO"`); got.out != "report\n" {
		f.Errorf("a command beside one: %+v", got)
	}
	f.readsAnEarlierLifeOfASidecar()
	f.deletePods(pod)
}

// readsAnEarlierLifeOfASidecar: a sidecar that ends runs again beside the others, which go on.
func (f *fleet) readsAnEarlierLifeOfASidecar() {
	life := f.awaitFirstLine("several", "-c", "proxy")
	if got := f.try(nil, "exec", "several", "-c", "proxy", "--", "touch", "/tmp/fall"); got.code != 0 || !strings.HasPrefix(life, "proxy ") {
		f.Fatalf("%q, %+v", life, got)
	}
	f.awaitLog(life, "logs", "several", "-c", "proxy", "--previous")
	f.await("the next life", func() (string, bool) {
		got := f.try(nil, "logs", "several", "-c", "proxy")
		return got.out + got.err, strings.HasPrefix(got.out, "proxy ") && got.out != life
	})
	f.awaitLog("build\n", "logs", "several", "-c", "build")
}

// awaitLog waits until a kubectl prints a log: lines come a moment after they were written.
func (f *fleet) awaitLog(want string, args ...string) {
	f.Helper()
	f.await(strings.Join(args, " "), func() (string, bool) {
		got := f.try(nil, args...)
		return got.out + got.err, got.code == 0 && got.out == want
	})
}
