package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

const (
	demoApp   = "macos-demo"
	demoImage = "ghcr.io/cirruslabs/macos-tahoe-xcode:26"

	// demoMacs is the fleet at its largest, demoLeft what stays.
	demoMacs = 3
	demoLeft = 1

	// demoStep bounds each step of the demo.
	demoStep = 3 * time.Minute
	demoPoll = 250 * time.Millisecond
)

func newDemo(flags *sandboxFlags) *cobra.Command {
	options := &upOptions{}
	keep := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch Macs become nodes, run Pods, and go back to the pool wiped",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := newProgress(cmd.OutOrStdout())
			defer p.end()
			return demo(cmd.Context(), flags, options, keep, p)
		},
	}
	options.register(cmd, demoTimeScale)
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the sandbox running at the end, and when it fails")
	return cmd
}

// demo runs the whole story.
func demo(ctx context.Context, flags *sandboxFlags, options *upOptions, keep bool, p *progress) error {
	if options.hosts < demoMacs {
		return usageError{fmt.Errorf("--hosts %d: the demo needs %d", options.hosts, demoMacs)}
	}
	const kept = "The sandbox is still up. Of the demo's Pods one waits: the Mac that is left runs two.\n"
	return flags.withSandbox(ctx, options, keep, kept, p, func(ctx context.Context, s story) error { return s.tell(ctx) })
}

// withSandbox brings a sandbox up for a story, and takes it down however that ends, unless
// it is to be kept.
func (f *sandboxFlags) withSandbox(ctx context.Context, options *upOptions, keep bool, kept string, p *progress, tell func(context.Context, story) error) (err error) {
	if err := up(ctx, f, options, p); err != nil {
		return err
	}
	running, err := f.running()
	if err != nil {
		return errors.Join(err, down(context.WithoutCancel(ctx), f, p))
	}
	defer func() {
		if err != nil {
			p.drop()
		}
		stays, says := fate(keep, err != nil, ctx.Err() != nil, kept)
		p.print(says)
		if stays {
			p.print(f.tryNext(running.Kubeconfig))
			return
		}
		err = errors.Join(err, down(context.WithoutCancel(ctx), f, p))
	}()
	c, err := newClient(running.Kubeconfig)
	if err != nil {
		return err
	}
	return tell(ctx, story{client: c, running: running, progress: p, hosts: options.hosts})
}

// fate says whether the sandbox outlives its story, and what to tell of it. Who asked to
// keep it wants it most when the story failed, and not when they ended it themselves.
func fate(keep, failed, interrupted bool, kept string) (stays bool, says string) {
	switch {
	case failed && interrupted:
		return false, ""
	case keep && failed:
		return true, "The sandbox is still up, as it was when this failed; its logs are in the folder logs beside the kubeconfig's.\n"
	case keep:
		return true, kept
	case failed:
		return false, "The sandbox and its logs go now. With --keep they stay, to be looked into.\n"
	}
	return false, ""
}

// story is a demo under way.
type story struct {
	client   client.Client
	running  state
	hosts    int
	progress *progress

	nodesAfter, podsAfter, drainedAfter, wipedAfter time.Duration
}

func (s *story) tell(ctx context.Context) error {
	chapters := []struct {
		text  string
		act   func(context.Context) error
		until func(*snapshot.Snapshot) (string, bool)
		took  *time.Duration
		// then shows what came of it.
		then func(context.Context) error
	}{
		{fmt.Sprintf("scaling the fleet from 0 to %d Macs", demoMacs), s.scaleTo(demoMacs), s.allRunning, &s.nodesAfter, nil},
		{fmt.Sprintf("running %d macOS Pods on them", demoMacs), s.deploy, s.allPodsReady, &s.podsAfter, s.lookInside},
		{fmt.Sprintf("scaling the fleet to %d", demoLeft), s.scaleTo(demoLeft), s.drained, &s.drainedAfter, nil},
		{"watching the wipes to their end", nil, s.wiped, &s.wipedAfter, nil},
	}
	for _, chapter := range chapters {
		began := time.Now()
		s.progress.step(chapter.text)
		if chapter.act != nil {
			if err := chapter.act(ctx); err != nil {
				return err
			}
		}
		if err := s.await(ctx, chapter.text, chapter.until); err != nil {
			return err
		}
		*chapter.took = time.Since(began)
		if chapter.then == nil {
			continue
		}
		if err := chapter.then(ctx); err != nil {
			return err
		}
	}
	return s.summary(ctx)
}

// lookInside shows that a Pod on a Mac is looked into as any other.
func (s *story) lookInside(ctx context.Context) error {
	for _, args := range [][]string{
		{"logs", "deployment/" + demoApp},
		{"exec", "deployment/" + demoApp, "--", "ps", "-A", "-o", "pid,comm"},
	} {
		kubectl := s.running.Binaries.Cluster.Kubectl(ctx, s.running.Kubeconfig, args...)
		output, err := kubectl.CombinedOutput()
		if err != nil {
			return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
		}
		s.progress.print("  $ kubectl " + strings.Join(args, " ") + "\n" + indented(string(output)))
	}
	return nil
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

// await looks until the chapter has ended, and shows how far it is.
func (s *story) await(ctx context.Context, text string, until func(*snapshot.Snapshot) (string, bool)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoStep, fmt.Errorf("not done after %s", demoStep))
	defer cancel()
	var last string
	err := wait.PollUntilContextCancel(ctx, demoPoll, true, func(ctx context.Context) (bool, error) {
		now, err := look(ctx, s.client)
		if err != nil {
			return false, err
		}
		how, done := until(now)
		last = how
		s.progress.step(text + ": " + how)
		return done, nil
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil { // how the wait was ended says nothing more
		err = cause
	}
	return fmt.Errorf("%s (%s): %w", text, last, err)
}

func (s *story) scaleTo(replicas int) func(context.Context) error {
	return func(ctx context.Context) error { return scaleFleet(ctx, s.client, replicas) }
}

func (s *story) poolFull(now *snapshot.Snapshot) (string, bool) {
	available := inPhase(now, infrav1.HostAvailable)
	return fmt.Sprintf("%d of %d hosts available", available, s.hosts), available == s.hosts
}

func (s *story) allRunning(now *snapshot.Snapshot) (string, bool) {
	return fmt.Sprintf("%d claimed, %d nodes, %d Machines available",
		inPhase(now, infrav1.HostClaimed)+inPhase(now, infrav1.HostInUse), len(now.Nodes), runningMachines(now)), runningMachines(now) == demoMacs
}

func (s *story) allPodsReady(now *snapshot.Snapshot) (string, bool) {
	ready := podsReady(now)
	return fmt.Sprintf("%d of %d running", ready, demoMacs) + demoTrouble(now), ready == demoMacs
}

func (s *story) drained(now *snapshot.Snapshot) (string, bool) {
	return show.Count(len(now.Nodes), "node") + ", " + show.Count(len(now.CoreMachines), "Machine") + " left",
		len(now.Nodes) == demoLeft && len(now.CoreMachines) == demoLeft
}

func (s *story) wiped(now *snapshot.Snapshot) (string, bool) {
	available := inPhase(now, infrav1.HostAvailable)
	return fmt.Sprintf("%d wiping, %d of %d hosts available", inPhase(now, infrav1.HostWiping)+inPhase(now, infrav1.HostReleasing), available, s.hosts),
		available == s.hosts-demoLeft
}

func (s *story) deploy(ctx context.Context) error {
	labels := map[string]string{"app": demoApp}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: demoApp, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(demoMacs)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector:                  map[string]string{corev1.LabelOSStable: "darwin"},
					Tolerations:                   []corev1.Toleration{{Key: "tuist.dev/macos", Operator: corev1.TolerationOpExists}},
					TerminationGracePeriodSeconds: ptr.To(int64(10)),
					Containers: []corev1.Container{{
						Name: "macos", Image: demoImage,
						Command: []string{"/bin/sh", "-c", `echo "this guest runs on the Mac of Node $MAC"; exec sleep 86400`},
						Env:     []corev1.EnvVar{{Name: "MAC", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
					}},
				},
			},
		},
	}
	if err := s.client.Create(ctx, deployment); err != nil {
		return fmt.Errorf("creating the demo's Deployment: %w", err)
	}
	return nil
}

// summary prints what happened, with the vendor's own count of calls.
func (s *story) summary(ctx context.Context) error {
	calls, err := vendorCalls(ctx, s.running.VendorURL)
	if err != nil {
		return err
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
	s.progress.print(fmt.Sprintf(`
  0 -> %d Macs as nodes            %8s
  %d macOS Pods running            %8s
  %d -> %d: drained, nodes gone     %8s
  wiped and back in the pool      %8s
  vendor calls: %d renames, %d reinstalls, %d deletions, %d reads

`, demoMacs, round(s.nodesAfter), demoMacs, round(s.podsAfter), demoMacs, demoLeft, round(s.drainedAfter), round(s.wipedAfter),
		calls.renames, calls.reinstalls, calls.deletions, calls.reads))
	return nil
}

// callCounts are the vendor's calls about servers.
type callCounts struct{ renames, reinstalls, deletions, reads int }

// vendorCalls reads the vendor's journal.
func vendorCalls(ctx context.Context, vendor string) (callCounts, error) {
	var counts callCounts
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, vendor+"/sandbox/journal", nil)
	if err != nil {
		return counts, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return counts, fmt.Errorf("reading the vendor's journal: %w", err)
	}
	defer response.Body.Close()
	var journal struct {
		Entries []struct {
			Call string `json:"call"`
		} `json:"entries"`
	}
	if err := json.NewDecoder(response.Body).Decode(&journal); err != nil {
		return counts, fmt.Errorf("reading the vendor's journal: %w", err)
	}
	for _, entry := range journal.Entries {
		switch entry.Call {
		case "UpdateServer":
			counts.renames++
		case "ReinstallServer":
			counts.reinstalls++
		case "DeleteServer":
			counts.deletions++
		case "GetServer", "ListServers":
			counts.reads++
		}
	}
	return counts, nil
}
