package pod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/env"
	"github.com/macfleet/macfleet/internal/agent/pod/objects"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// ClusterInputs implements Inputs from the cluster's objects and the volumes made of
// them, whose methods are its own.
type ClusterInputs struct {
	Objects *objects.Store
	*volume.Store
	// Facts of the host for the downward API. Nil: there are none.
	Facts func() env.Facts
}

var _ Inputs = ClusterInputs{}

// Hold watches the objects that the Pod refers to.
func (g ClusterInputs) Hold(p *corev1.Pod) { g.Objects.Hold(p.UID, objects.Refs(p)) }

// Drop ends what Hold began.
func (g ClusterInputs) Drop(uid types.UID) { g.Objects.Drop(uid) }

// Changed is that of the objects.
func (g ClusterInputs) Changed(uid types.UID) <-chan struct{} { return g.Objects.Changed(uid) }

// PullSecrets leaves out those that are not there, as a kubelet does.
func (g ClusterInputs) PullSecrets(ctx context.Context, p *corev1.Pod) ([]corev1.Secret, error) {
	var list []corev1.Secret
	for _, name := range pullSecretNames(p) {
		s, err := g.Objects.Secret(ctx, p.Namespace, name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading pull secret %s/%s: %w", p.Namespace, name, err)
		}
		list = append(list, *s)
	}
	return list, nil
}

// pullSecretNames leaves out empty names in imagePullSecrets, which the API takes with a
// warning.
func pullSecretNames(p *corev1.Pod) []string {
	var names []string
	for _, ref := range p.Spec.ImagePullSecrets {
		if ref.Name != "" {
			names = append(names, ref.Name)
		}
	}
	return names
}

// Prepare resolves the environment of each container before it makes volumes, so
// that nothing is written for a Pod that cannot run.
func (g ClusterInputs) Prepare(ctx context.Context, p *corev1.Pod) (Prepared, error) {
	commands := map[string]vm.GuestCommand{}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		var err error
		if commands[c.Name], err = g.Command(ctx, p, c.Name); err != nil {
			return Prepared{}, err
		}
	}
	given := Prepared{Commands: commands}
	main := given.Commands[p.Spec.Containers[0].Name]
	// A VM that asks for no environment gets no file of one.
	asks := len(p.Spec.Containers[0].Env)+len(p.Spec.Containers[0].EnvFrom) > 0
	mode := volume.Mode{Report: !state.RunsCommand(p), Env: !state.RunsCommand(p) && asks && len(main.Env) > 0}
	mounting, err := withSubPaths(p, commands)
	if err != nil {
		return Prepared{}, err
	}
	setup, err := g.Store.SetUp(ctx, mounting, mode)
	if err != nil {
		return Prepared{}, err
	}
	if mode.Env {
		if err := g.Store.WriteEnv(ctx, p, main.Env); err != nil {
			return Prepared{}, err
		}
	}
	given.Shares, given.Setup, given.RefreshAt = setup.Shares, volume.SetupScript(setup.Links, state.MessagePaths(p)), setup.RefreshAt
	return given, nil
}

// withSubPaths is the Pod with each subPathExpr expanded from its container's environment.
func withSubPaths(p *corev1.Pod, commands map[string]vm.GuestCommand) (*corev1.Pod, error) {
	expanded := *p
	for _, list := range []*[]corev1.Container{&expanded.Spec.InitContainers, &expanded.Spec.Containers} {
		*list = slices.Clone(*list)
		for i, c := range *list {
			var err error
			if (*list)[i], err = env.WithSubPaths(c, commands[c.Name].Env); err != nil {
				return nil, err
			}
		}
	}
	return &expanded, nil
}

// Command resolves the environment of one container. The file that stands in for the
// environment of a VM is written before there is an address to write in it.
func (g ClusterInputs) Command(ctx context.Context, p *corev1.Pod, container string) (vm.GuestCommand, error) {
	at, found := state.PlaceOf(p, container)
	if !found {
		return vm.GuestCommand{}, fmt.Errorf("%w: %s", ErrContainerNotFound, container)
	}
	c, facts := at.In(p), g.facts()
	if state.IsCommand(c) {
		facts.PodIP = vm.GuestAddress
	}
	list, err := env.Resolve(ctx, p, c, g.Objects, facts)
	if err != nil {
		return vm.GuestCommand{}, err
	}
	argv, err := env.Argv(c, list)
	if err != nil {
		return vm.GuestCommand{}, err
	}
	return vm.GuestCommand{Argv: argv, Env: list, Dir: c.WorkingDir, TTY: c.TTY}, nil
}

func (g ClusterInputs) facts() env.Facts {
	if g.Facts == nil {
		return env.Facts{}
	}
	return g.Facts()
}

// Overfull finds what is beyond its limit.
func (g ClusterInputs) Overfull(p *corev1.Pod) string {
	if excess := g.Store.Usage(p); excess != nil {
		return excess.String()
	}
	return ""
}
