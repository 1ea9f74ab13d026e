package act

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scaleway/scaleway-sdk-go/validation"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/fleetkey"
)

// Fleet is a fleet with its Secrets.
type Fleet struct {
	Namespace, Name string
	// SSH and Signing are its Secrets; nil: there is none.
	SSH, Signing *corev1.Secret
	Machines     []*infrav1.ScalewayAppleSiliconMachine
	// Deployments are the MachineDeployments that make its Machines.
	Deployments []*clusterv1.MachineDeployment
	// Others are what the manager keeps its key at the vendor for beside these, by kind and name.
	Others []string
	// Leaving are the hosts of its namespace that are being released.
	Leaving []string
}

func (f Fleet) name() string { return f.Namespace + "/" + f.Name }

// keys are those in its Secret, the one in use first, and what it says of them.
func (f Fleet) keys() ([]fleetkey.Signer, error) {
	switch secret := f.Name + fleetkey.SecretSuffix; {
	case len(f.Machines)+len(f.Deployments) == 0:
		return nil, fmt.Errorf("no Machine and no MachineDeployment is of fleet %s, whose Secret would be %s: is that its name?", f.name(), secret)
	case f.SSH == nil:
		return nil, fmt.Errorf("fleet %s has no Secret %s with an SSH key: is that its name? Its key is made by its first Machine", f.name(), secret)
	}
	return fleetkey.Read(f.SSH)
}

// macs are its Machines that have a Mac, or are to have one that is known.
func (f Fleet) macs() []*infrav1.ScalewayAppleSiliconMachine {
	return slices.DeleteFunc(slices.Clone(f.Machines), func(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.Spec.HostRef == nil })
}

// marked: one of its Secrets bears the label that the manager gives to those of fleets.
func (f Fleet) marked() bool {
	return slices.ContainsFunc([]*corev1.Secret{f.SSH, f.Signing}, func(secret *corev1.Secret) bool {
		return secret != nil && secret.Labels[clusterv1.ClusterNameLabel] != ""
	})
}

// unchecked is how Macs take another key where none is looked at.
const unchecked = "where manager.driftCheckInterval is 0 that never happens by itself, but with a rollout, or by macfleet machine restart-agent"

func fingerprint(key fleetkey.Signer) string { return fleetkey.Fingerprint(key.Public()) }

// ReplaceKey gives a fleet another SSH key, beside the one that its Macs know.
type ReplaceKey struct {
	// Private and Public are the new key's halves, as its Secret holds them.
	Private, Public []byte
}

// Plan is for a fleet whose key is not being replaced already.
func (a ReplaceKey) Plan(f Fleet) (Plan, error) {
	keys, err := f.keys()
	switch {
	case err != nil:
		return Plan{}, err
	case len(keys) > 1:
		return Plan{}, fmt.Errorf("the SSH key of fleet %s is being replaced already, by %s: end that first, with macfleet fleet ssh-key finish %s -n %s", f.name(), fingerprint(keys[0]), f.Name, f.Namespace)
	}
	var p Plan
	p.say("fleet %s gets a new SSH key, %s", f.name(), fleetkey.Fingerprint(string(a.Public)))
	p.say("the one that it has, %s, stays beside it until you end that: the manager offers both, and leaves both on its Macs", fingerprint(keys[0]))
	p.say("its Macs (%d) take the new one in their turns, within about six hours; the first push registers it with the vendor", len(f.macs()))
	p.say(unchecked)
	p.say("Macs of the pool that were installed before that know the old one alone")
	p.secret(f.SSH, map[string]any{"data": map[string]any{
		fleetkey.KeyPrivate: a.Private, fleetkey.KeyPublic: a.Public, fleetkey.KeyPrevious: keys[0].Private,
	}})
	return p, nil
}

// FinishKey takes the previous key out of a fleet's Secret.
type FinishKey struct{}

// Plan is for a fleet whose Macs all have the new key.
func (FinishKey) Plan(f Fleet) (Plan, error) {
	keys, err := f.keys()
	if err != nil {
		return Plan{}, err
	}
	if len(keys) < 2 {
		return Plan{}, fmt.Errorf("the SSH key of fleet %s is not being replaced: it is %s alone", f.name(), fingerprint(keys[0]))
	}
	behind := slices.DeleteFunc(f.macs(), func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		return m.Status.Applied.SSHKey == fingerprint(keys[0])
	})
	if len(behind) > 0 {
		return Plan{}, fmt.Errorf("the new SSH key of fleet %s is not on all of its Macs yet, %d without it: %s: nobody would reach them any more. %s",
			f.name(), len(behind), named(namesOf(behind)), takesIt(behind))
	}
	var p Plan
	p.say("the SSH key of fleet %s is %s alone: all of its Macs (%d) have it", f.name(), fingerprint(keys[0]), len(f.macs()))
	p.say("the one before, %s, is taken off them in their turns, and goes at the vendor an hour later", fingerprint(keys[1]))
	p.say(unchecked)
	p.say("Macs of the pool that were installed before the new one was registered are reached by nobody when they are claimed: reinstall them first")
	p.secret(f.SSH, map[string]any{"data": map[string]any{fleetkey.KeyPrevious: nil}})
	return p, nil
}

// takesIt says how Macs come by the new key.
func takesIt(behind []*infrav1.ScalewayAppleSiliconMachine) string {
	node := slices.IndexFunc(behind, func(m *infrav1.ScalewayAppleSiliconMachine) bool { return m.Spec.ProviderID != "" })
	if node < 0 {
		return "They are no nodes yet, and have it when they are"
	}
	return fmt.Sprintf("To have one take it now: macfleet machine restart-agent %s -n %s", behind[node].Name, behind[node].Namespace)
}

// Retire deletes the Secrets of a fleet that is gone.
type Retire struct{}

// Plan is for a fleet without Machines.
func (Retire) Plan(f Fleet) (Plan, error) {
	replicas := func(d *clusterv1.MachineDeployment) int { return int(ptr.Deref(d.Spec.Replicas, 0)) }
	wants := slices.IndexFunc(f.Deployments, func(d *clusterv1.MachineDeployment) bool { return replicas(d) > 0 })
	switch {
	case f.SSH == nil && f.Signing == nil:
		return Plan{}, fmt.Errorf("fleet %s has no Secrets: is that its name? Else it is retired already, or has had no Mac yet", f.name())
	case wants >= 0:
		return Plan{}, fmt.Errorf("fleet %s wants %s: scale it to 0 first, with kubectl -n %s scale machinedeployment %s --replicas=0, and wait until they are wiped",
			f.name(), show.Count(replicas(f.Deployments[wants]), "Mac"), f.Namespace, f.Deployments[wants].Name)
	case len(f.Machines) > 0:
		return Plan{}, fmt.Errorf("fleet %s has Machines still, whose Macs nobody would reach (%d): %s: wait until they are gone: macfleet machines -n %s", f.name(), len(f.Machines), named(namesOf(f.Machines)), f.Namespace)
	case len(f.Deployments) > 0:
		return Plan{}, fmt.Errorf("fleet %s has its MachineDeployment %s still, which may make Machines: take the fleet out of the values of its release, or delete that first", f.name(), f.Deployments[0].Name)
	case len(f.Others) > 0:
		return Plan{}, fmt.Errorf("what may have Macs of fleet %s is there still, and the manager keeps its SSH key at the vendor for it (%d): %s: wait until it is gone", f.name(), len(f.Others), named(f.Others))
	case !f.marked():
		return Plan{}, fmt.Errorf("no Secret of fleet %s bears the label %s, as those of fleets do: is that its name? Where it is: kubectl -n %s delete secret %s", f.name(), clusterv1.ClusterNameLabel, f.Namespace, f.Name+fleetkey.SecretSuffix)
	}
	var p Plan
	for _, secret := range []*corev1.Secret{f.SSH, f.Signing} {
		if secret != nil {
			p.say("Secret %s/%s is deleted; nobody makes this key again", secret.Namespace, secret.Name)
			p.delete(secret)
		}
	}
	p.say("an hour later the manager takes the fleet's SSH key away at the vendor")
	if len(f.Leaving) > 0 {
		p.say("that waits for hosts of the namespace that are being wiped (%d): %s", len(f.Leaving), named(f.Leaving))
	}
	return p, nil
}

func namesOf(machines []*infrav1.ScalewayAppleSiliconMachine) []string {
	names := make([]string, 0, len(machines))
	for _, m := range machines {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// lastApplied is where kubectl apply keeps a copy of what was applied, secrets included.
const lastApplied = corev1.LastAppliedConfigAnnotation

// VendorKey gives the manager another key of the vendor's.
type VendorKey struct {
	AccessKey, SecretKey string
	// From is where it was taken from.
	From string
}

// The keys of the Secret with the vendor's credentials.
const (
	accessKeyName = "SCW_ACCESS_KEY"
	secretKeyName = "SCW_SECRET_KEY"
)

// Plan is for the Secret that holds it.
func (a VendorKey) Plan(secret *corev1.Secret) (Plan, error) {
	name := secret.Namespace + "/" + secret.Name
	was := strings.TrimSpace(string(secret.Data[accessKeyName]))
	if was == "" {
		return Plan{}, fmt.Errorf("the Secret %s holds no %s: name the one with the vendor's credentials with --secret", name, accessKeyName)
	}
	copied := hasAnnotation(secret, lastApplied)
	same := was == a.AccessKey && strings.TrimSpace(string(secret.Data[secretKeyName])) == a.SecretKey
	if same && !copied {
		return Plan{}, fmt.Errorf("the Secret %s holds that very key already", name)
	}
	if !validation.IsAccessKey(was) {
		was = "one that is none" // where the halves were swapped it is the secret one
	}
	var p Plan
	p.say("the manager speaks to the vendor with access key %s in place of %s, from the Secret %s; it is not started anew", a.AccessKey, was, name)
	p.say("the new key is from %s", a.From)
	p.say("the project stays as it is: a key of another one is refused")
	p.say("whether the vendor takes it is shown within a minute: macfleet status")
	patch := map[string]any{"data": map[string]any{accessKeyName: []byte(a.AccessKey), secretKeyName: []byte(a.SecretKey)}}
	if copied {
		p.say("the copy of an earlier key goes that kubectl apply left in an annotation, for whoever sees the Secret's metadata: end that key at the vendor")
		patch["metadata"] = map[string]any{"annotations": map[string]any{lastApplied: nil}}
	}
	p.secret(secret, patch)
	return p, nil
}
