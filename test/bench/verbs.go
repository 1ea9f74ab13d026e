package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

// verbRuns is how often each verb is run.
const verbRuns = 20

// verbTime is what one of macfleet's verbs takes, from the start of its process to its end.
type verbTime struct {
	verb  string
	walls []time.Duration
	// processor is what the process took of it, which others at work change little.
	processor []time.Duration
	// goal is in milliseconds.
	goal float64
}

// measureVerbs asks about a world as a person does in which each host has a Machine that runs.
func measureVerbs(ctx context.Context, binaries cluster.Binaries, s settings) ([]verbTime, error) {
	say("verbs: starting an API server with %d hosts, as many Machines and Nodes", s.hosts)
	w, err := start(ctx, binaries, options{servers: 1, inventory: hostcontroller.DefaultInventoryInterval, settings: s})
	if err != nil {
		return nil, err
	}
	defer w.stop()
	w.switchOn()
	if err := w.fill(ctx, s.hosts); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mfbench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program, kubeconfig, err := w.forAPerson(ctx, dir)
	if err != nil {
		return nil, err
	}
	all, err := w.machines(ctx)
	if err != nil {
		return nil, err
	}
	var times []verbTime
	for _, verb := range []struct {
		args []string
		goal float64
	}{
		{[]string{"status"}, 300},
		{[]string{"explain", "machine", all[0].Name}, 500},
		{[]string{"explain", "host", all[0].Spec.HostRef.Name}, 500},
	} {
		say("verbs: macfleet %s", verb.args[0])
		took, err := timeVerb(ctx, program, append(verb.args, "--kubeconfig", kubeconfig)...)
		if err != nil {
			return nil, err
		}
		took.verb, took.goal = fmt.Sprint("macfleet ", verb.args[0]), verb.goal
		if len(verb.args) > 1 {
			took.verb += " " + verb.args[1]
		}
		times = append(times, took)
	}
	return times, nil
}

// fill has one Machine run, as the controllers leave it and its host, ends the controllers, and
// makes copies of both: more than these would be there after many minutes, and differ in nothing.
func (w *world) fill(ctx context.Context, machines int) error {
	if err := errors.Join(w.makeCluster(ctx), w.open(ctx), w.makeMachines(ctx, 0, 1), w.awaitRunning(ctx, 1), w.stopManager()); err != nil {
		return err
	}
	all, err := w.machines(ctx)
	if err != nil {
		return err
	}
	one, hostName := all[0].Name, all[0].Spec.HostRef.Name
	host := &infrav1.ScalewayAppleSiliconHost{}
	if err := w.client.Get(ctx, client.ObjectKey{Name: hostName}, host); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for n := 1; n < machines; n++ {
		names := strings.NewReplacer(host.Spec.ServerID, fmt.Sprintf("%08d-0000-4000-8000-000000000000", n), one, fmt.Sprintf("builders-%05d", n))
		group.Go(func() error { return w.copyMachine(ctx, one, hostName, names) })
	}
	return group.Wait()
}

// copyMachine makes another of a Machine, with its Mac.
func (w *world) copyMachine(ctx context.Context, machine, host string, names *strings.Replacer) error {
	for _, of := range []struct {
		object    client.Object
		namespace string
		name      string
	}{
		{&infrav1.ScalewayAppleSiliconHost{}, "", host},
		{&infrav1.ScalewayAppleSiliconMachine{}, namespace, machine},
		{&clusterv1.Machine{}, namespace, machine},
		{&corev1.Node{}, "", machine},
	} {
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: of.namespace, Name: of.name}, of.object); err != nil {
			return err
		}
		if err := w.copy(ctx, of.object, names); err != nil {
			return fmt.Errorf("copying %T: %w", of.object, err)
		}
	}
	return nil
}

// copy makes an object with other names in it, and its status.
func (w *world) copy(ctx context.Context, object client.Object, names *strings.Replacer) error {
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	other := []byte(names.Replace(string(text)))
	if err := json.Unmarshal(other, object); err != nil {
		return err
	}
	if err := w.client.Create(ctx, object); err != nil {
		return err
	}
	if err := json.Unmarshal(other, object); err != nil { // the answer had no status
		return err
	}
	return w.client.Status().Update(ctx, object)
}

// forAPerson builds macfleet as releases have it, and writes a kubeconfig for it.
func (w *world) forAPerson(ctx context.Context, dir string) (program, kubeconfig string, err error) {
	program, kubeconfig = filepath.Join(dir, "macfleet"), filepath.Join(dir, "kubeconfig")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/macfleet")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building macfleet: %w: %s", err, out)
	}
	user, err := w.environment.AddUser(envtest.User{Name: "operator", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return "", "", fmt.Errorf("adding a user: %w", err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		return "", "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return program, kubeconfig, os.WriteFile(kubeconfig, text, 0o600)
}

// timeVerb runs a command again and again.
func timeVerb(ctx context.Context, program string, args ...string) (verbTime, error) {
	var t verbTime
	for range verbRuns {
		cmd := exec.CommandContext(ctx, program, args...)
		began := time.Now()
		out, err := cmd.CombinedOutput()
		t.walls = append(t.walls, time.Since(began))
		if err != nil {
			return verbTime{}, fmt.Errorf("macfleet %s: %w: %s", args[0], err, out)
		}
		t.processor = append(t.processor, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	return t, nil
}
