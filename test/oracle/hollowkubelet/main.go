// Command hollowkubelet is Kubernetes' own kubelet, as kubemark makes it, over a runtime whose containers are processes
// of this machine: probes, commands, exit codes, logs, streams and events are real. It is what Pods on a Mac are compared
// with.
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

// options are the flags.
type options struct {
	kubeconfig, name, journal string
	port                      int
	sandboxTakes, startTakes  time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig with an administrator's rights")
	flag.StringVar(&o.name, "name", "hollow", "name of the Node")
	flag.DurationVar(&o.sandboxTakes, "sandbox-takes", 0, "how long a sandbox takes to start")
	flag.DurationVar(&o.startTakes, "start-takes", 0, "how long a container takes to start")
	flag.IntVar(&o.port, "port", 0, "port of the kubelet's API; 0: it serves none")
	flag.StringVar(&o.journal, "journal", "", "file for the start and the end of each container: the Pod's UID, started or ended, and the time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hollowkubelet:", err)
		os.Exit(1)
	}
}

// run returns once ctx has ended.
func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1                    // it is not to wait for itself
	config.UserAgent = "hollowkubelet" // its requests are counted by that
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	runtime := newProcesses(o.sandboxTakes, o.startTakes)
	if err := runtime.keepJournal(o.journal); err != nil {
		return err
	}
	if err := runtime.serveStreams(); err != nil {
		return err
	}
	flags, settings := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{NodeName: o.name, KubeletPort: o.port, MaxPods: 110})
	defer os.RemoveAll(flags.RootDirectory) //nolint:errcheck // in the folder for temporary files
	settings.EnableServer = o.port != 0
	settings.SyncFrequency.Duration = time.Minute // a kubelet's own default; kubemark's is 10 s
	settings.ClusterDNS = []string{"10.96.0.10"}  // without one it tells of each Pod that there is none
	hollow := kubemark.NewHollowKubelet(flags, settings, client, client,
		machine{&cadvisortest.Fake{NodeName: o.name}}, newImages(), runtime, cm.NewStubContainerManager())
	hollow.KubeletDeps.ProbeManager = nil // it makes its own
	hollow.KubeletDeps.Recorder = nil     // also; it then reads /dev/kmsg, and needs the right to
	hollow.KubeletDeps.EventClient = client.CoreV1()
	if settings.EnableServer {
		if err := secure(ctx, hollow, config, client); err != nil {
			return err
		}
	}
	go hollow.Run(ctx)
	<-ctx.Done()
	runtime.end()
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
