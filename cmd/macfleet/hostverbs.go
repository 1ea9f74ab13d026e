package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// planner is one recipe for a host.
type planner interface {
	Plan(act.Mac) (act.Plan, error)
}

// hostVerb is a recipe as a command.
func hostVerb(use, short, long string, recipe func() planner, flags func(*cobra.Command)) *cobra.Command {
	var d doer
	cmd := &cobra.Command{
		Use: use + " HOST", Short: short, Long: long + "\n\nHOST is its name, its server's name or its id, each of them whole.",
		Args: oneName("say which host"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if typed, is := recipe().(interface{ Check() error }); is {
				if err := typed.Check(); err != nil {
					return usageError{fmt.Errorf("%w: see %s --help", err, cmd.CommandPath())}
				}
			}
			return d.do(cmd, func(ctx context.Context, c client.Client) (act.Plan, error) {
				mac, err := d.mac(ctx, c, snapshot.WithoutKind(args[0], snapshot.Hosts))
				if err != nil {
					return act.Plan{}, err
				}
				return recipe().Plan(mac)
			})
		},
	}
	d.add(cmd)
	flags(cmd)
	cmd.ValidArgsFunction = d.completeNames(snapshot.Hosts)
	return cmd
}

// mac reads a host, those that have it, its Cluster and the Pods on it as far as the rights go. Without sight of the Machines
// nobody can tell whether a host has one.
func (d *doer) mac(ctx context.Context, c client.Client, name string) (act.Mac, error) {
	s, err := snapshot.Load(ctx, c, "", snapshot.Hosts, snapshot.Machines, snapshot.CoreMachines, snapshot.Clusters)
	if err != nil {
		return act.Mac{}, err
	}
	for _, kind := range []snapshot.Kind{snapshot.Hosts, snapshot.Machines} {
		if why := s.Lacks(kind); why != "" {
			return act.Mac{}, fmt.Errorf("who has the host cannot be told: %s: %s", kind, why)
		}
	}
	h, err := explain.FindHost(s.Hosts, name, true)
	if err != nil {
		return act.Mac{}, err
	}
	if node := (act.Mac{Host: h}).Node(); node != "" {
		if err := s.AddPodsOn(ctx, c, node); err != nil {
			return act.Mac{}, err
		}
	}
	return act.MacOf(s, h), nil
}

func hostVerbs() []*cobra.Command {
	return []*cobra.Command{newRelease(), newAdopt(), newWipe(), newDetach(), newQuarantine(), newMaintenance(), newReboot(), newAcceptSerial()}
}

func releaseFlags(cmd *cobra.Command, r *act.Release) {
	cmd.Flags().StringVar(&r.Pool, "pool", "", "prefix of the pool that it goes back to (default: the only one that is known)")
	cmd.Flags().StringVar(&r.OS, "os", "", "family of macOS to install (default: the one it has)")
	cmd.Flags().BoolVar(&r.Terminate, "terminate", false, "give it back to the vendor instead")
}

func newRelease() *cobra.Command {
	var r act.Release
	return hostVerb("release", "Release a stranded Mac, whose Machine is gone: it is wiped",
		"Records the release that a stranded host lacks, with the token of the claim that it ends. With --terminate\nalso for a Mac that is being wiped and should not come back.",
		func() planner { r.Now = onceNow(r.Now); return r }, func(cmd *cobra.Command) { releaseFlags(cmd, &r) })
}

func newAdopt() *cobra.Command {
	var a act.Adopt
	return hostVerb("adopt", "Take a Mac that is Foreign or NotWiped into the pool: wiped, renamed, Available",
		"With --trust-disk it is only renamed, and you answer for its disk.",
		func() planner { return a }, func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&a.Pool, "pool", "", "prefix of the pool (default: the only one that is known)")
			cmd.Flags().BoolVar(&a.TrustDisk, "trust-disk", false, "wipe nothing: its disk is clean")
			cmd.Flags().BoolVar(&a.Cancel, "cancel", false, "take the adoption back")
		})
}

func newWipe() *cobra.Command {
	var w act.Wipe
	return hostVerb("wipe", "Wipe a Mac, whoever has it, and return it to the pool",
		"Deletes the Machine that has it; of a stranded Mac it records the release, and a Mac that is Foreign or\nNotWiped is adopted. With --terminate the Mac is given back to the vendor when its wipe has begun, or is\nlate or refused, also one of the pool that no Machine has.",
		func() planner {
			w.Now, w.Token = onceNow(w.Now), cmp.Or(w.Token, uuid.NewString())
			return w
		}, func(cmd *cobra.Command) { releaseFlags(cmd, &w.Release) })
}

func newDetach() *cobra.Command {
	var d act.Detach
	return hostVerb("detach", "Let a Mac go as it is, without a wipe",
		"Deletes its Machine with a clean goodbye: Pods are drained, the agent stops, the Mac keeps its disk. Of a host\nthat was handed over, the claim here ends; so does a release that is held, since the server is somebody else's.",
		func() planner { return d }, func(cmd *cobra.Command) {
			cmd.Flags().BoolVar(&d.Elsewhere, "elsewhere", false, "somebody else has the Mac: touch neither it nor the vendor")
		})
}

func newQuarantine() *cobra.Command {
	var q act.Quarantine
	return hostVerb("quarantine", "Keep a Mac out of the pool, for a while or until you end it",
		"It ends no claim: a Machine that has the Mac keeps it.",
		func() planner { q.Now = onceNow(q.Now); return q }, func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&q.Reason, "reason", "", "why, for people (required, except with --end)")
			cmd.Flags().Var(span{&q.For}, "for", "for how long, such as 48h or 2d (default: until you end it)")
			cmd.Flags().BoolVar(&q.End, "end", false, "end it")
		})
}

func newMaintenance() *cobra.Command {
	var m act.Maintenance
	return hostVerb("maintenance", "Keep a Mac out of the pool and of recovery, until you end it",
		"A rollout still takes the Mac in its turn, and deleting its Machine still wipes it.",
		func() planner { return m }, func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&m.Reason, "reason", "", "why, for people (required, except with --end)")
			cmd.Flags().BoolVar(&m.End, "end", false, "end it")
		})
}

func newReboot() *cobra.Command {
	var r act.Reboot
	return hostVerb("reboot", "Reboot a Mac, which is a power cut",
		"Without --force it waits while Pods of their own run on the Mac's Ready Node.",
		func() planner {
			if r.ID == "" {
				r.ID = "by-hand-" + time.Now().UTC().Format("20060102t150405z")
			}
			return r
		}, func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for people (required, except with --cancel)")
			cmd.Flags().StringVar(&r.ID, "id", "", "name of the request, which is made once (default: made of the time)")
			cmd.Flags().BoolVar(&r.Force, "force", false, "also while Pods run, which die with it")
			cmd.Flags().BoolVar(&r.Cancel, "cancel", false, "take a request back that waits")
		})
}

func newAcceptSerial() *cobra.Command {
	var a act.AcceptSerial
	return hostVerb("accept-serial", "Take a host's hardware for exchanged by the vendor: name the serial number of the new Mac",
		"Ask the vendor first. The condition of its Machine names the number that was shown, as `macfleet explain\nmachine` tells it.",
		func() planner { return a }, func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&a.Serial, "serial", "", "serial number of the new Mac (required)")
		})
}

// onceNow is the time at which a verb was typed: what is agreed to does not move with it.
func onceNow(known time.Time) time.Time {
	if known.IsZero() {
		return time.Now()
	}
	return known
}
