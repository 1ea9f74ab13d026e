package chaos

import (
	"context"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/sandbox/mac/tart"
	"github.com/macfleet/macfleet/test/agent/stage"
)

// act does one thing, drawn by weight.
func (h *history) act(ctx context.Context) {
	acts := []struct {
		weight int
		do     func(context.Context)
	}{
		{30, h.create},
		{12, h.deleteOne},
		{12, h.awaitLife},
		{14, h.killAgent},
		{8, func(context.Context) { h.kill(stage.RoleShim) }},
		{8, func(context.Context) { h.kill(stage.RoleRun) }},
		{8, func(context.Context) { h.kill(stage.RoleGuest) }},
		{6, h.loseServer},
		{5, h.fillDisk},
		{10, func(context.Context) { h.fault() }},
		{2, func(context.Context) { h.losePower() }},
	}
	h.acts++
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	n := h.dice.IntN(total)
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			a.do(ctx)
			return
		}
	}
}

// create makes a Pod of a random kind.
func (h *history) create(ctx context.Context) {
	h.pods++
	name := fmt.Sprintf("%s-%d", h.mac.Name, h.pods)
	policies := []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure, corev1.RestartPolicyAlways}
	policy := policies[h.dice.IntN(len(policies))]
	changes := []func(*corev1.Pod){stage.Restarts(policy), stage.Grace(int64(1 + h.dice.IntN(4)))}
	kind := "a machine"
	if h.chance(60) {
		var commands []func(*corev1.Pod)
		commands, kind = h.commands(policy)
		changes = append(append(changes, commands...), h.marking())
	}
	if h.chance(30) {
		changes, kind = append(changes, stage.Mounts("data", "/opt/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})), kind+" with a volume"
	}
	if h.chance(20) {
		changes, kind = append(changes, stage.Mounts("secret", "/opt/secret", corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secretName},
		})), kind+" with a Secret"
	}
	p := h.mac.Pod(name, changes...)
	h.say("creates %s: %s, %s", name, kind, p.Spec.RestartPolicy)
	_, err := h.plane.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	h.try(err)
}

// commands are one, one after an init container, or several beside one another.
func (h *history) commands(policy corev1.RestartPolicy) (changes []func(*corev1.Pod), kind string) {
	if h.chance(30) {
		return h.several(policy)
	}
	changes, kind = []func(*corev1.Pod){stage.Runs(onlyOnce("main") + h.script())}, "a command"
	if h.chance(30) {
		changes, kind = append(changes, stage.Before("init", fmt.Sprintf("exit %d", h.dice.IntN(4)/3))), "an init container and a command"
	}
	return changes, kind
}

// several are two commands, and perhaps a sidecar that ends now and then. They run again in the machine they are in,
// unless the policy is Never.
func (h *history) several(policy corev1.RestartPolicy) (changes []func(*corev1.Pod), kind string) {
	begin := alone
	if policy == corev1.RestartPolicyNever {
		begin = func(name string) string { return alone(name) + onlyOnce(name) }
	}
	kind = "two commands"
	changes = []func(*corev1.Pod){stage.Runs(begin("main") + h.script()), stage.Beside("beside", begin("beside")+h.script())}
	if h.chance(60) {
		script := []string{forever, "sleep 0.5" + unlocked + "; exit 1"}[h.dice.IntN(2)]
		changes, kind = append(changes, stage.Sidecar("sidecar", alone("sidecar")+script)), kind+" and a sidecar"
	}
	return changes, kind
}

const (
	forever = "sleep 600" + unlocked + "; exit"
	// unlocked leaves the lock of alone to the command itself.
	unlocked = " 9>&-"
)

// script ends soon, well or badly, or never.
func (h *history) script() string {
	script := fmt.Sprintf("sleep 0.%d%s; exit %d", h.dice.IntN(10), unlocked, h.dice.IntN(2)*3)
	if h.chance(30) {
		return forever
	}
	return script
}

// onlyOnce begins a command that is to run once in its machine: a clone is fresh, so that the folder is there only for
// the second one, which says so where it outlives the machine.
func onlyOnce(name string) string {
	return "mkdir /var/ran-once-" + name + " || hostname >> /opt/marks/second-main\n"
}

// alone begins a command that may run again, but never beside itself. Where it does, it says so.
func alone(name string) string {
	return "exec 9>/var/lock-" + name + "; flock -n 9 || hostname >> /opt/marks/beside-itself\n"
}

// marking mounts the folder for these marks.
func (h *history) marking() func(*corev1.Pod) {
	return stage.Mounts("marks", "/opt/marks", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: h.mac.Path("hostpath")}})
}

// deleteOne deletes a Pod: with its grace, with a short one, or by force.
func (h *history) deleteOne(ctx context.Context) {
	pods := h.mine(ctx)
	if len(pods) == 0 {
		return
	}
	p := &pods[h.dice.IntN(len(pods))]
	var grace *int64
	switch h.dice.IntN(4) {
	case 0:
		grace = new(int64) // by force
	case 1:
		second := int64(1)
		grace = &second
	}
	h.remove(ctx, p, grace)
}

func (h *history) remove(ctx context.Context, p *corev1.Pod, grace *int64) {
	force := grace != nil && *grace == 0
	if force {
		h.guard.forced(p.UID)
	}
	h.say("deletes %s, by force: %t", p.Name, force)
	err := h.plane.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if err != nil && !stage.IsGone(err) {
		h.try(err)
	}
}

// killAgent ends the agent; the next one comes at once or some time later.
func (h *history) killAgent(context.Context) {
	signal := syscall.SIGKILL
	if h.chance(30) {
		signal = syscall.SIGTERM
	}
	h.say("kills the agent: %s", signal)
	h.try(h.mac.EndAgent(signal))
	if h.chance(70) {
		h.try(h.mac.StartAgent())
	}
}

// kill kills one process of a role, if there is one of a Pod.
func (h *history) kill(role stage.Role) {
	var all []stage.Process
	for _, p := range h.mac.Processes() {
		if p.Role == role {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return
	}
	p := all[h.dice.IntN(len(all))]
	h.say("kills a %s: %d %s", role, p.PID, p.Machine)
	_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may just have ended
}

// loseServer cuts or silences the way to the API server for a while.
func (h *history) loseServer(ctx context.Context) {
	long := time.Duration(h.dice.Int64N(int64(*outageFlag) + 1))
	if h.chance(80) {
		long = min(long, 2*time.Second) // a history has time for few long ones
	}
	if h.chance(50) {
		h.say("the API server is away for %s", long)
		h.mac.Link.Cut()
	} else {
		h.say("the API server is silent for %s", long)
		h.mac.Link.Swallow()
	}
	end := time.Now().Add(long)
	for time.Now().Before(end) {
		time.Sleep(time.Duration(h.dice.IntN(300)) * time.Millisecond)
		switch h.dice.IntN(6) {
		case 0:
			h.create(ctx)
		case 1:
			h.deleteOne(ctx)
		case 2:
			h.kill(stage.RoleShim)
		case 3:
			h.kill(stage.RoleGuest)
		}
	}
	h.mac.Link.Mend()
	h.say("the API server is back")
}

// fillDisk lets the agent's state have no space for a while.
func (h *history) fillDisk(ctx context.Context) {
	if !h.small {
		h.fault()
		return
	}
	h.say("the disk is full")
	h.try(h.mac.FillDisk())
	for range h.dice.IntN(3) {
		time.Sleep(time.Duration(h.dice.IntN(300)) * time.Millisecond)
		switch h.dice.IntN(3) {
		case 0:
			h.create(ctx)
		case 1:
			h.deleteOne(ctx)
		case 2:
			h.kill(stage.RoleRun)
		}
	}
	h.try(h.mac.FreeDisk())
	h.say("the disk is free")
}

// fault lets tart fail in one way until the next fault or the end of the round.
func (h *history) fault() {
	faults := []tart.Fault{
		{Kind: tart.PullInterrupted, Times: 1},
		{Kind: tart.PullNoSpace, Times: 1},
		{Kind: tart.CloneNoSpace, Times: 1},
		{Kind: tart.RunExitsEarly, Times: 1},
		{Kind: tart.RunLimit, Times: 1},
		{Kind: tart.RunNoSession, Times: 1},
		{Kind: tart.RunIgnoresStop},
		{Kind: tart.GuestIgnoresShutdown},
		{Kind: tart.BootCrash, Times: 1},
		{Kind: tart.BootNoLease},
		{Kind: tart.AgentNever},
		{Kind: tart.AgentDrops, Times: 1},
		{Kind: tart.NetworkLost, Times: 1},
		{Kind: tart.RunKilled, Step: []string{"begun", "home-lock", "vm-lock", "powered", "running"}[h.dice.IntN(5)], Times: 1},
		{Kind: tart.ListTruncated, Times: 1},
	}
	f := faults[h.dice.IntN(len(faults))]
	h.say("tart: %s", f.Kind)
	h.plan(f)
}

// plan has times of its own each time: a plan with the same words counts on.
func (h *history) plan(faults ...tart.Fault) {
	h.try(h.mac.SetPlan(tart.Plan{BootDelay: tart.Duration(time.Duration(10000+h.acts) * time.Microsecond), Faults: faults}))
}

// losePower ends everything on the Mac, and boots it again.
func (h *history) losePower() {
	h.say("the power is lost")
	h.try(h.mac.PowerOff())
	h.try(h.mac.StartAgent())
}
