// Command hollowkubelet is Kubernetes' own kubelet, as kubemark makes it, over a runtime whose containers are processes
// of this machine: probes, commands, exit codes and events are real. It is what Pods on a Mac are compared with.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig with an administrator's rights")
	name := flag.String("name", "hollow", "name of the Node")
	sandbox := flag.Duration("sandbox-takes", 0, "how long a sandbox takes to start")
	start := flag.Duration("start-takes", 0, "how long a container takes to start")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *kubeconfig, *name, newProcesses(*sandbox, *start))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hollowkubelet:", err)
		os.Exit(1)
	}
}

// run returns once ctx has ended.
func run(ctx context.Context, kubeconfig, name string, runtime *processes) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1 // it is not to wait for itself
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	flags, settings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: name, MaxPods: 110})
	defer os.RemoveAll(flags.RootDirectory) //nolint:errcheck // in the folder for temporary files
	settings.EnableServer = false
	settings.SyncFrequency.Duration = time.Minute // a kubelet's own default; kubemark's is 10 s
	settings.ClusterDNS = []string{"10.96.0.10"}  // without one it tells of each Pod that there is none
	hollow := kubemark.NewHollowKubelet(flags, settings, client, client,
		machine{&cadvisortest.Fake{NodeName: name}}, newImages(), runtime, cm.NewStubContainerManager())
	hollow.KubeletDeps.ProbeManager = nil // it makes its own
	hollow.KubeletDeps.Recorder = nil     // also; it then reads /dev/kmsg, and needs the right to
	hollow.KubeletDeps.EventClient = client.CoreV1()
	go hollow.Run(ctx)
	<-ctx.Done()
	return nil
}

// machine has room for all Pods.
type machine struct{ *cadvisortest.Fake }

// MachineInfo says how much.
func (m machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info, err := m.Fake.MachineInfo()
	if err == nil {
		info.NumCores, info.MemoryCapacity = 1000, 1<<42
	}
	return info, err
}
