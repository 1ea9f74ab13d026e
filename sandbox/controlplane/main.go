// Command controlplane is a whole Kubernetes control plane in one file.
//
// By the name it is called with, or else by its first argument, it is etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl or metrics-server, each with the flags of the original.
// `controlplane up` runs the first four in one process, with certificates, kubeconfigs and cluster-info prepared:
// see internal/up. Cluster API's core manager is built from the same module as a binary of its own.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // as the original servers: CronJobs name time zones

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as the original servers have them
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/macfleet/macfleet/sandbox/controlplane/internal/metricsserver"
	"github.com/macfleet/macfleet/sandbox/controlplane/internal/up"
)

func main() {
	component, args, ok := choose(os.Args)
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl|metrics-server|up [flags]")
		os.Exit(2)
	}
	os.Args = args // the components read their flags from here
	os.Exit(run(component))
}

// choose finds the component in the name of the program or in the first argument, and returns the arguments that
// the component would have had as a program of its own.
func choose(args []string) (component string, rest []string, ok bool) {
	if len(args) == 0 {
		return "", nil, false
	}
	if name := filepath.Base(args[0]); isComponent(name) {
		return name, args, true
	}
	if len(args) > 1 && isComponent(args[1]) {
		return args[1], args[1:], true
	}
	return "", nil, false
}

func isComponent(name string) bool {
	switch name {
	case "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "metrics-server", "up":
		return true
	}
	return false
}

// run builds only the command that was asked for: the constructor of kube-apiserver's already takes the signal
// handler that a process can have once.
func run(component string) (exitCode int) {
	switch component {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0
	case "kube-apiserver":
		return cli.Run(apiserverapp.NewAPIServerCommand())
	case "kube-controller-manager":
		return cli.Run(controllerapp.NewControllerManagerCommand())
	case "kube-scheduler":
		return cli.Run(schedulerapp.NewSchedulerCommand())
	case "metrics-server":
		return metricsserver.Main(os.Args[1:], os.Stderr)
	case "kubectl":
		return kubectl()
	default:
		return up.Main(os.Args[1:], os.Stdout, os.Stderr)
	}
}

func kubectl() int {
	// kubectl logs while it builds its command, before flags are parsed: the verbosity is wanted by then.
	if _, err := logs.GlogSetter(kubectlcmd.GetLogVerbosity(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := cli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints, and exits with the code of the error
	}
	return 0
}
