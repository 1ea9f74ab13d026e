package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/fleetkey"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/remote"
)

// consoleUser is who is logged in on the vendor's Macs.
const consoleUser = "m1"

// newMachine holds what is done on a Machine's Mac itself.
func newMachine() *cobra.Command {
	cmd := group("machine", "What to look at on a Machine's Mac itself, by SSH, and what to do to a Machine")
	cmd.AddCommand(newMachineSSH(), newMachineDoctor(), newMachineLogs())
	cmd.AddCommand(machineVerbs()...)
	return cmd
}

// macVerb is a verb that logs in on a Machine's Mac.
type macVerb struct {
	verb
	port int
	// exact: the beginning of the Machine's name is not enough.
	exact bool
	// of is the Machine whose Mac it is, once that is known.
	of *infrav1.ScalewayAppleSiliconMachine
}

func (v *macVerb) add(cmd *cobra.Command) {
	v.verb.add(cmd)
	v.addPort(cmd)
	cmd.ValidArgsFunction = v.completeNames(snapshot.Machines)
}

func (v *macVerb) addPort(cmd *cobra.Command) {
	cmd.Flags().IntVar(&v.port, "port", 0, "port of the Mac's SSH server, as where a gateway forwards one (default: SSH's own)")
}

func (v *macVerb) checkPort() error {
	if v.port < 0 || v.port > 65535 {
		return usageError{fmt.Errorf("--port %d is not a port", v.port)}
	}
	return nil
}

func newMachineSSH() *cobra.Command {
	var v macVerb
	cmd := &cobra.Command{
		Use:   "ssh NAME [-- COMMAND...]",
		Short: "A shell on a Machine's Mac, or one command",
		Long: "Logs in with the fleet's key, which stays in memory, and only where the Mac shows the host key that the\n" +
			"manager recorded in this installation. It takes the right to read the Secrets of the Machine's namespace.\n" +
			"It ends with the command's own exit code. A command wants the Machine's whole name, a shell the beginning of it.",
		Example: "  macfleet machine ssh macfleet-builders-x7k2p-9qxlm\n  macfleet machine ssh macfleet-builders-x7k2p-9qxlm -- tail -n 20 /var/log/install.log",
		Args:    atLeastOne("say which Machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v.exact = len(args) > 1
			return v.interact(cmd, args[0], shellWords(args[1:]), !v.exact)
		},
	}
	v.add(cmd)
	return cmd
}

func newMachineDoctor() *cobra.Command {
	var v macVerb
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor NAME",
		Short: "What is wrong with a Machine's Mac: the doctor, run there",
		Long:  "Runs `tart-kubelet doctor` as root on the Mac, which changes nothing, by SSH as `machine ssh` does. It ends\nwith 1 when there is a problem.",
		Args:  oneName("say which Machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			command := "sudo -n " + document.CurrentAgent + " doctor"
			if asJSON {
				command += " --json"
			}
			return v.doctor(cmd, args[0], command)
		},
	}
	v.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON document, macfleet.dev/doctor/v1")
	return cmd
}

// interact runs a command on a Machine's Mac and ends with its exit code.
func (v *macVerb) interact(cmd *cobra.Command, name, command string, shell bool) error {
	session, err := v.dial(cmd.Context(), name)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	at, restore, err := consoleOf(cmd, shell)
	if err != nil {
		return err
	}
	code, err := session.Interact(cmd.Context(), command, at)
	restore()
	return ended(code, err)
}

// doctor runs the doctor. Where it fails since there is none, that is what is wrong.
func (v *macVerb) doctor(cmd *cobra.Command, name, command string) error {
	session, err := v.dial(cmd.Context(), name)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	code, err := session.Interact(cmd.Context(), command, cleanedConsole(cmd))
	if err == nil && code != 0 {
		if err := v.agentIsThere(cmd.Context(), session); err != nil {
			return err
		}
	}
	return ended(code, err)
}

// agentIsThere says so unless the Mac has no agent: its setup failed before it came so far.
func (v *macVerb) agentIsThere(ctx context.Context, session *remote.Session) error {
	nothing := remote.Console{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	code, err := session.Interact(ctx, "test -e "+document.CurrentAgent, nothing)
	if err != nil || code == 0 {
		return err
	}
	return fmt.Errorf("there is no agent on the Mac of Machine %s/%s yet, and no logs of one: its setup has not come so far%s. What happens next: macfleet explain machine %s; a shell there: macfleet machine ssh %s",
		v.of.Namespace, v.of.Name, setupOf(v.of), v.of.Name, v.of.Name)
}

// setupOf is how far the setup of a Machine's Mac is, where it is not done.
func setupOf(m *infrav1.ScalewayAppleSiliconMachine) string {
	c := meta.FindStatusCondition(m.Status.Conditions, infrav1.BootstrappedCondition)
	if c == nil || !show.Unhealthy(*c) {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf(" (%s: %s", c.Reason, c.Message), ": ") + ")"
}

// ended is how a verb ends that ran a command on a Mac.
func ended(code int, err error) error {
	switch {
	case err != nil:
		return err
	case code < 0:
		return errors.New("a signal ended the command on the Mac")
	case code > 0:
		return exitError{code}
	}
	return nil
}

func (v *macVerb) dial(ctx context.Context, name string) (*remote.Session, error) {
	if err := v.checkPort(); err != nil {
		return nil, err
	}
	target, err := v.target(ctx, name)
	if err != nil {
		return nil, err
	}
	session, err := remote.Dial(ctx, target)
	return session, behindPort(err, target)
}

// behindPort is why a Mac is not reached; of one of a sandbox also how it is, since none of them
// listens at SSH's own port.
func behindPort(err error, to remote.Target) error {
	at, none := netip.ParseAddr(to.Address)
	if err == nil || none != nil || !at.IsLoopback() || to.Port != 0 {
		return err
	}
	return fmt.Errorf("%w; %s is an address of a sandbox: name with --port its ssh port, which macfleet sandbox status shows", err, to.Address)
}

// target is the Mac of a Machine as its cluster records it.
func (v *macVerb) target(ctx context.Context, name string) (remote.Target, error) {
	name = v.nameOf(name, snapshot.Machines)
	c, s, err := v.load(ctx, snapshot.Machines, snapshot.Hosts, snapshot.CoreMachines)
	if err != nil {
		return remote.Target{}, err
	}
	find := explain.Find[infrav1.ScalewayAppleSiliconMachine]
	if v.exact {
		find = explain.FindExactly[infrav1.ScalewayAppleSiliconMachine]
	}
	m, err := find(s.Machines, "machine", name)
	if err != nil {
		return remote.Target{}, err
	}
	return v.targetIn(ctx, c, s, m)
}

// targetIn is the Mac of a Machine as a snapshot has it.
func (v *macVerb) targetIn(ctx context.Context, c client.Client, s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) (remote.Target, error) {
	if why := s.Lacks(snapshot.Hosts); why != "" {
		return remote.Target{}, fmt.Errorf("the Mac's host key cannot be told: %s: %s", snapshot.Hosts, why)
	}
	v.of = m
	target, err := targetOf(m, hostOf(s, m))
	if err != nil {
		return remote.Target{}, err
	}
	target.Port = v.port
	keys, user, err := readLogin(ctx, c, m, fleetOf(s, m))
	target.User = user
	if err == nil {
		target.Key, target.OtherKeys = keys[0], keys[1:]
	}
	return target, err
}

// targetOf is where a Machine's Mac is, and the host key that it must show.
func targetOf(m *infrav1.ScalewayAppleSiliconMachine, h *infrav1.ScalewayAppleSiliconHost) (remote.Target, error) {
	name := m.Namespace + "/" + m.Name
	if h == nil {
		return remote.Target{}, fmt.Errorf("there is no Mac of Machine %s: macfleet explain machine %s", name, m.Name)
	}
	pin := h.Spec.Record.HostKey
	if pin == nil {
		return remote.Target{}, fmt.Errorf("the host key of Machine %s's Mac is not recorded yet, or its Mac is being wiped%s: macfleet explain machine %s", name, setupOf(m), m.Name)
	}
	target := remote.Target{Pin: remote.Pin{Algorithm: pin.Algorithm, SHA256: pin.SHA256}}
	for _, a := range m.Status.Addresses {
		if a.Type == clusterv1.MachineExternalIP && a.Address != "" {
			target.Address = cmp.Or(target.Address, a.Address)
		}
	}
	if target.Address == "" {
		return remote.Target{}, fmt.Errorf("there is no address of Machine %s: the vendor shows none for host %s", name, h.Name)
	}
	return target, nil
}

// fleetOf is the fleet of a Machine, as the manager names it.
func fleetOf(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) string {
	of := machine.Snapshot{Machine: m}
	for i := range s.CoreMachines {
		if owner := &s.CoreMachines[i]; owner.Namespace == m.Namespace && owner.Spec.InfrastructureRef.Name == m.Name {
			of.Owner = owner
		}
	}
	return of.Fleet()
}

// readLogin reads the fleet's keys, and who they log in as.
func readLogin(ctx context.Context, c client.Client, m *infrav1.ScalewayAppleSiliconMachine, fleet string) ([]ssh.Signer, string, error) {
	name := client.ObjectKey{Namespace: m.Namespace, Name: fleet + fleetkey.SecretSuffix}
	secret, err := readSecret(ctx, c, name)
	if err != nil {
		return nil, "", err
	}
	if secret == nil {
		return nil, "", fmt.Errorf("the Secret %s with the fleet's key is not there", name)
	}
	keys, err := fleetkey.Read(secret)
	if err != nil {
		return nil, "", err
	}
	signers := make([]ssh.Signer, 0, len(keys))
	for _, key := range keys {
		signers = append(signers, key)
	}
	content, err := bootstrapsecret.Secrets{Reader: c}.Read(ctx, client.ObjectKeyFromObject(m))
	if err != nil {
		return nil, "", err
	}
	return signers, cmp.Or(content.User, consoleUser), nil
}
