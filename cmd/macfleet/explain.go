package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func newExplain() *cobra.Command {
	cmd := group("explain", "The whole story of a Machine, host, Pod, profile or cluster, and what to do")
	cmd.Long = "What it is, what it waits for and since when, what happens next by itself and when, what a person\n" +
		"can do, and where to read on."
	cmd.Example = "  macfleet explain host fr-par-1-1a2b3c4d\n  macfleet explain machine macfleet-builders-x7k2p-9qxlm\n  macfleet explain pod -n ci build-7\n  macfleet explain profile macfleet-builders -o json"
	cmd.AddCommand(newExplainHost(), newExplainMachine(), newExplainPod(), newExplainProfile(), newExplainCluster(), newExplainControlPlane())
	return cmd
}

// explainer is the verb for one kind.
func explainer(use, short string, kind snapshot.Kind, aliases []string, tell func(context.Context, *verb, string) (explain.Story, error)) *cobra.Command {
	var v verb
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Aliases: aliases,
		Args: oneName("say which " + use),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.checkOutput(); err != nil {
				return err
			}
			story, err := tell(cmd.Context(), &v, v.nameOf(args[0], kind))
			if err != nil {
				return err
			}
			if v.output != "" {
				err = write(cmd.OutOrStdout(), v.output, story)
			} else {
				err = story.Write(cmd.OutOrStdout(), screenOf(cmd))
			}
			if err != nil {
				return err
			}
			return sayMissing(cmd.ErrOrStderr(), story.Missing)
		},
	}
	v.add(cmd, "json", "yaml")
	cmd.ValidArgsFunction = v.completeNames(kind)
	return cmd
}

// loadFor reads what a story needs; without its own kind there is none.
func (v *verb) loadFor(ctx context.Context, kind snapshot.Kind, names map[snapshot.Kind]string, kinds []snapshot.Kind) (*snapshot.Snapshot, error) {
	c, err := v.cluster.Client()
	if err != nil {
		return nil, err
	}
	s, err := loadOwn(ctx, c, v.cluster.Chosen(), names, kinds)
	if err != nil {
		return nil, err
	}
	if why := s.Lacks(kind); why != "" {
		return nil, fmt.Errorf("%s: %s", kind, why)
	}
	return s, nil
}

// loadOwn reads what a story needs: of the kinds in names what bears that name, but all Machines
// where its own do not tell everything.
func loadOwn(ctx context.Context, c client.Reader, namespace string, names map[snapshot.Kind]string, kinds []snapshot.Kind) (*snapshot.Snapshot, error) {
	s, err := snapshot.LoadNamed(ctx, c, namespace, names, kinds...)
	if _, named := names[snapshot.Machines]; err != nil || !named || !explain.NeedsAllMachines(s) {
		return s, err
	}
	all, err := snapshot.Load(ctx, c, namespace, snapshot.Machines)
	if err == nil {
		s.Machines = all.Machines
	}
	return s, err
}

// findNamed finds the object that is asked for. Only where nothing has the whole name that was
// typed, all names are read.
func findNamed[T any](kind snapshot.Kind, name string, load func(map[snapshot.Kind]string) (*snapshot.Snapshot, error), find func(*snapshot.Snapshot) (*T, error)) (*T, error) {
	s, err := load(map[snapshot.Kind]string{kind: name[strings.LastIndex(name, "/")+1:]})
	if err != nil {
		return nil, err
	}
	one, err := find(s)
	if unknown, is := errors.AsType[explain.UnknownError](err); !is || len(unknown.Among) > 0 {
		return one, err
	}
	if s, err = load(nil); err != nil {
		return nil, err
	}
	return find(s)
}

// ofOneMac is what has a story of one Mac, and how that is read.
type ofOneMac[T any] struct {
	kind  snapshot.Kind
	kinds []snapshot.Kind
	find  func(*snapshot.Snapshot, string) (*T, error)
	names func(*T) map[snapshot.Kind]string
}

// load reads the object that is asked for, and then of a thousand Macs only what belongs to it,
// as it was read first.
func (a ofOneMac[T]) load(ctx context.Context, v *verb, name string) (*snapshot.Snapshot, *T, error) {
	one, err := findNamed(a.kind, name, func(names map[snapshot.Kind]string) (*snapshot.Snapshot, error) {
		return v.loadFor(ctx, a.kind, names, []snapshot.Kind{a.kind})
	}, func(s *snapshot.Snapshot) (*T, error) { return a.find(s, name) })
	if err != nil {
		return nil, nil, err
	}
	s, err := v.loadFor(ctx, a.kind, a.names(one), a.kinds)
	return s, one, err
}

func newExplainHost() *cobra.Command {
	host := ofOneMac[infrav1.ScalewayAppleSiliconHost]{snapshot.Hosts, explain.HostKinds(), func(s *snapshot.Snapshot, name string) (*infrav1.ScalewayAppleSiliconHost, error) {
		return explain.FindHost(s.Hosts, name, false)
	}, explain.HostNames}
	return explainer("host", "The story of a Mac of the pool", snapshot.Hosts, []string{"sash"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, h, err := host.load(ctx, v, name)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.Host(s, reasons.Read(), h), nil
	})
}

func newExplainMachine() *cobra.Command {
	machine := ofOneMac[infrav1.ScalewayAppleSiliconMachine]{snapshot.Machines, explain.MachineKinds(), func(s *snapshot.Snapshot, name string) (*infrav1.ScalewayAppleSiliconMachine, error) {
		return explain.Find(s.Machines, "machine", name)
	}, explain.MachineNames}
	return explainer("machine", "The story of a Machine", snapshot.Machines, []string{"samm"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, m, err := machine.load(ctx, v, name)
		if err != nil {
			return v.tellNoInfrastructure(ctx, name, err)
		}
		return explain.Machine(s, reasons.Read(), m), nil
	})
}

// tellNoInfrastructure tells of a Machine that Cluster API alone has still; else why there is no story of it.
func (v *verb) tellNoInfrastructure(ctx context.Context, name string, why error) (explain.Story, error) {
	if _, unknown := errors.AsType[explain.UnknownError](why); !unknown {
		return explain.Story{}, why
	}
	_, s, err := v.load(ctx, snapshot.Machines, snapshot.CoreMachines)
	if err != nil {
		return explain.Story{}, why
	}
	c := explain.FindNoInfrastructure(s, name)
	if c == nil {
		return explain.Story{}, why
	}
	return explain.NoInfrastructure(s, reasons.Read(), c), nil
}

func newExplainProfile() *cobra.Command {
	return explainer("profile", "The story of a MacNodeProfile and its rollout", snapshot.Profiles, []string{"mnp"}, tellProfile)
}

func newExplainCluster() *cobra.Command {
	return explainer("cluster", "The story of a cluster: its manager, the vendor, its control plane", snapshot.Zones, []string{"sasc"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, err := v.loadFor(ctx, snapshot.Zones, nil, explain.ClusterKinds())
		if err != nil {
			return explain.Story{}, err
		}
		c, err := explain.Find(s.Zones, "cluster", name)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.Cluster(s, reasons.Read(), c), nil
	})
}

func newExplainControlPlane() *cobra.Command {
	return explainer("controlplane", "The story of an ExternalControlPlane", snapshot.ControlPlanes, []string{"ecp"}, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		s, err := v.loadFor(ctx, snapshot.ControlPlanes, nil, explain.ClusterKinds())
		if err != nil {
			return explain.Story{}, err
		}
		p, err := explain.Find(s.ControlPlanes, "controlplane", name)
		if err != nil {
			return explain.Story{}, err
		}
		return explain.ControlPlane(s, reasons.Read(), p), nil
	})
}

func newExplainPod() *cobra.Command {
	return explainer("pod", "The story of a Pod, and of the Mac that it runs on or waits for", snapshot.Pods, nil, func(ctx context.Context, v *verb, name string) (explain.Story, error) {
		namespace, err := v.cluster.Namespace()
		if err != nil {
			return explain.Story{}, err
		}
		c, err := v.cluster.Client()
		if err != nil {
			return explain.Story{}, err
		}
		// The Pod is in one namespace, and the fleets in another.
		p, err := findNamed(snapshot.Pods, name, func(names map[snapshot.Kind]string) (*snapshot.Snapshot, error) {
			return snapshot.LoadNamed(ctx, c, namespace, names, snapshot.Pods)
		}, func(s *snapshot.Snapshot) (*corev1.Pod, error) { return explain.Find(s.Pods, "pod", name) })
		if unknown, is := errors.AsType[explain.UnknownError](err); is {
			unknown.Namespace = namespace
			return explain.Story{}, unknown
		}
		if err != nil {
			return explain.Story{}, err
		}
		fleets, err := loadOwn(ctx, c, "", explain.PodNames(p), explain.PodKinds())
		if _, nothing := errors.AsType[snapshot.NothingError](err); err != nil && !nothing { // a Pod has a story of its own
			return explain.Story{}, err
		}
		return explain.Pod(fleets, reasons.Read(), p), nil
	})
}
