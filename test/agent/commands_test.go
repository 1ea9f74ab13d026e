package agent

import (
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/sandbox/mac/tart"
	"github.com/macfleet/macfleet/test/agent/stage"
)

// once fails a command that runs a second time in one machine.
const once = "mkdir /var/ran-once || exit 99\n"

// template of a Pod that the scheduler brings to this Mac.
func (s *scene) template(app string, changes ...func(*corev1.Pod)) corev1.PodTemplateSpec {
	p := s.mac.Pod("", changes...)
	p.Spec.NodeName = ""
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: s.mac.Name, corev1.LabelOSStable: "darwin"}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: p.Spec}
}

// runsJobs: the Job and Deployment controllers and the scheduler see what they need.
func runsJobs(s *scene) {
	s.join()
	jobs := s.plane.Client.BatchV1().Jobs(metav1.NamespaceDefault)
	for _, c := range []struct {
		name, script string
		done         func(*batchv1.Job) bool
	}{
		{"good", once + "exit 0", func(j *batchv1.Job) bool { return j.Status.Succeeded == 2 && finished(j, batchv1.JobComplete) }},
		{"bad", once + "exit 3", func(j *batchv1.Job) bool { return j.Status.Failed == 1 && finished(j, batchv1.JobFailed) }},
	} {
		job, err := jobs.Create(s.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: s.name(c.name)},
			Spec: batchv1.JobSpec{
				Completions: ptr.To(int32(2)), Parallelism: ptr.To(int32(1)), BackoffLimit: ptr.To(int32(0)),
				Template: s.template(c.name, stage.Runs(c.script), stage.Restarts(corev1.RestartPolicyNever)),
			},
		}, metav1.CreateOptions{})
		s.must(err)
		s.await("the Job "+c.name+" ends", func() bool {
			now, err := jobs.Get(s.Context(), job.Name, metav1.GetOptions{})
			return err == nil && c.done(now)
		})
		s.must(jobs.Delete(s.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
		s.await("the Job is gone", func() bool { _, err := jobs.Get(s.Context(), job.Name, metav1.GetOptions{}); return stage.IsGone(err) })
	}
	s.recreates()
	s.clear()
}

func finished(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// recreates: a Pod of a Deployment that is deleted is replaced by another one.
func (s *scene) recreates() {
	s.Helper()
	deployments := s.plane.Client.AppsV1().Deployments(metav1.NamespaceDefault)
	d, err := deployments.Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.name("runner")},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.name("runner")}},
			Template: s.template(s.name("runner")),
		},
	}, metav1.CreateOptions{})
	s.must(err)
	available := func() bool {
		now, err := deployments.Get(s.Context(), d.Name, metav1.GetOptions{})
		return err == nil && now.Status.AvailableReplicas == 1
	}
	s.await("the Deployment is available", available)
	pods := s.plane.Client.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + s.name("runner")})
	s.must(err)
	first := &list.Items[0]
	s.must(pods.Delete(s.Context(), first.Name, metav1.DeleteOptions{}))
	s.await("another Pod runs", func() bool { return s.get(first) == nil && available() })
	s.must(deployments.Delete(s.Context(), d.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	s.await("the Deployment is gone", func() bool {
		_, err := deployments.Get(s.Context(), d.Name, metav1.GetOptions{})
		return stage.IsGone(err)
	})
}

// restartPolicies: what each policy makes of an end.
func restartPolicies(s *scene) {
	s.join()
	for _, c := range []struct {
		name, script string
		policy       corev1.RestartPolicy
		phase        corev1.PodPhase // empty: it is restarted
		code         int32
	}{
		{"never-0", "exit 0", corev1.RestartPolicyNever, corev1.PodSucceeded, 0},
		{"never-3", "exit 3", corev1.RestartPolicyNever, corev1.PodFailed, 3},
		{"never-kill", "kill -9 $$$$", corev1.RestartPolicyNever, corev1.PodFailed, 137},
		{"failure-0", "exit 0", corev1.RestartPolicyOnFailure, corev1.PodSucceeded, 0},
		{"failure-3", "exit 3", corev1.RestartPolicyOnFailure, "", 3},
		{"always-0", "exit 0", corev1.RestartPolicyAlways, "", 0},
	} {
		p := s.create(c.name, stage.Runs(once+c.script), stage.Restarts(c.policy))
		if c.phase != "" {
			if e := s.awaitEnd(p, c.phase); e.ExitCode != c.code {
				s.Errorf("%s: end %+v, want exit code %d", c.name, e, c.code)
			}
		} else {
			s.restartsWith(p, c.code)
		}
		s.remove(p, metav1.DeleteOptions{})
	}
	s.clear()
}

// restartsWith waits until the Pod has been restarted after an end with this code.
func (s *scene) restartsWith(p *corev1.Pod, code int32) {
	s.Helper()
	now := s.awaitPod("is restarted", p, func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
	last := now.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != code {
		s.Errorf("%s: last end %+v, want exit code %d", p.Name, last, code)
	}
	if now.Status.Phase != corev1.PodRunning {
		s.Errorf("%s is %s", p.Name, now.Status.Phase)
	}
}

// initContainers run in order, each to its end, and the main one only after them.
func initContainers(s *scene) {
	s.join()
	p := s.create("order", stage.Restarts(corev1.RestartPolicyNever),
		stage.Before("first", "test ! -e /tmp/trace && echo first >> /tmp/trace"),
		stage.Before("second", `test "$(cat /tmp/trace)" = first && echo second >> /tmp/trace`),
		stage.Runs(once+`test "$(cat /tmp/trace)" = "$(printf 'first\nsecond')" || exit 9`))
	if e := s.awaitEnd(p, corev1.PodSucceeded); e.ExitCode != 0 {
		s.Errorf("end %+v", e)
	}
	now := s.get(p)
	for _, c := range now.Status.InitContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 || !c.Ready {
			s.Errorf("init container %+v", c)
		}
	}
	if len(now.Status.InitContainerStatuses) != 2 {
		s.Errorf("init containers %+v", now.Status.InitContainerStatuses)
	}
	p = s.create("fails", stage.Restarts(corev1.RestartPolicyNever), stage.Before("only", "exit 4"), stage.Runs("exit 0"))
	now = s.awaitPod("has failed", p, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if c := now.Status.InitContainerStatuses; len(c) != 1 || c[0].State.Terminated == nil || c[0].State.Terminated.ExitCode != 4 {
		s.Errorf("init containers %+v", c)
	}
	if c := now.Status.ContainerStatuses; len(c) != 1 || c[0].State.Running != nil {
		s.Errorf("the main container %+v", c)
	}
	s.initializesAnew()
	s.clear()
}

// initializesAnew: the API server takes every status of a restart, although it lets no
// end of an init container be taken back that this policy does not restart.
func (s *scene) initializesAnew() {
	s.Helper()
	p := s.create("anew", stage.Restarts(corev1.RestartPolicyOnFailure), stage.Before("only", "sleep 1"), stage.Runs("exit 3"))
	s.restartsWith(p, 3)
	now := s.awaitPod("has initialized anew", p, func(p *corev1.Pod) bool {
		c := p.Status.InitContainerStatuses
		return len(c) == 1 && strings.HasSuffix(c[0].ContainerID, "-1/only") && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	if c := now.Status.InitContainerStatuses[0]; c.State.Terminated == nil || c.RestartCount != 1 {
		s.Errorf("init container %+v", c)
	}
	if n := s.mac.Log.Count("the status of a Pod was not written", now.Name); n > 0 {
		s.Errorf("%d statuses were not written", n)
	}
}

// objects makes a Secret and a ConfigMap of this story, with a marker that must not
// be seen anywhere it does not belong.
func (s *scene) objects() (secret, config string) {
	s.Helper()
	secret, config = s.name("secret"), s.name("config")
	core := s.plane.Client.CoreV1()
	_, err := core.Secrets(metav1.NamespaceDefault).Create(s.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret}, StringData: map[string]string{"password": marker, "other": "2"},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = core.ConfigMaps(metav1.NamespaceDefault).Create(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: config}, Data: map[string]string{"color": "green", "level": "one"},
	}, metav1.CreateOptions{})
	s.must(err)
	return secret, config
}

// marker is a secret that is easy to find.
const marker = "hunter2-marker-5d41402a"

// givesEnv: every source of a variable, with expansion.
func givesEnv(s *scene) {
	s.join()
	secret, config := s.objects()
	p := s.create("env", stage.Restarts(corev1.RestartPolicyNever), func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.EnvFrom = []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}}, Prefix: "CFG_"},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}},
		}
		c.Env = []corev1.EnvVar{
			{Name: "PLAIN", Value: "a b'c\"d$e"},
			{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "password",
			}}},
			{Name: "EXPANDED", Value: "$(CFG_color)-$(NO_SUCH)-$$(CFG_color)"},
			{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "CPUS", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}},
		}
		c.Command = []string{"/bin/sh", "-c", once + `
[ "$PLAIN" = "a b'c\"d\$e" ] || exit 11
[ "$PASSWORD" = ` + marker + ` ] || exit 12
[ "$password" = ` + marker + ` ] || exit 13
[ "$CFG_color$CFG_level" = greenone ] || exit 14
[ "$EXPANDED" = 'green-$(NO_SUCH)-$$(CFG_color)' ] || exit 15
[ "$POD" = "$0" ] || exit 16
[ "$CPUS" = 2 ] || exit 17`}
		c.Args = []string{"$(POD)"}
	})
	if e := s.awaitEnd(p, corev1.PodSucceeded); e.ExitCode != 0 {
		s.Errorf("end %+v", e)
	}
	s.noSecretIn("the agent's log", s.mac.Log.String())
	calls, err := os.ReadFile(s.mac.Path("tart-calls.jsonl"))
	s.must(err)
	s.noSecretIn("tart's arguments", string(calls))
	s.noSecretBelow(s.mac.Path("state", "pods"))
	s.clear()
}

func (s *scene) noSecretIn(where, text string) {
	s.Helper()
	if strings.Contains(text, marker) {
		s.Errorf("the secret is in %s", where)
	}
}

func (s *scene) noSecretBelow(dir string) {
	s.Helper()
	s.must(filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		s.noSecretIn(path, string(text))
		return err
	}))
}

// givesVolumes: every kind of volume is where it is mounted, and a changed ConfigMap
// arrives in the guest while it runs.
func givesVolumes(s *scene) {
	s.join()
	secret, config := s.objects()
	p := s.create("volumes", stage.Restarts(corev1.RestartPolicyNever),
		stage.Mounts("empty", "/opt/data/empty", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		stage.Mounts("config", "/opt/data/config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: config},
		}}),
		stage.Mounts("secret", "/Users/admin/secret files", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}),
		stage.Mounts("info", "/opt/data/info", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		}}),
		stage.Before("writes", "echo from-init > /opt/data/empty/note"),
		func(p *corev1.Pod) { p.Spec.InitContainers[0].VolumeMounts = p.Spec.Containers[0].VolumeMounts[:1] },
		stage.Runs(once+`
[ "$(cat /opt/data/empty/note)" = from-init ] || exit 11
[ "$(cat /opt/data/config/color)" = green ] || exit 12
[ "$(cat '/Users/admin/secret files/password')" = `+marker+` ] || exit 13
[ "$(cat /opt/data/info/name)" = `+s.name("volumes")+` ] || exit 14
echo x > /opt/data/config/new 2>/dev/null && exit 15
echo x > /opt/data/empty/new || exit 16
echo yes > /Users/admin/waiting
until [ "$(cat /opt/data/config/color)" = blue ]; do sleep 0.1; done`))
	p = s.awaitRunning(p)
	s.await("the guest has read what was there", func() bool { return s.guestFile(p, "Users/admin/waiting") != "" })
	maps := s.plane.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	changed, err := maps.Get(s.Context(), config, metav1.GetOptions{})
	s.must(err)
	changed.Data["color"] = "blue"
	_, err = maps.Update(s.Context(), changed, metav1.UpdateOptions{})
	s.must(err)
	if e := s.awaitEnd(p, corev1.PodSucceeded); e.ExitCode != 0 {
		s.Errorf("end %+v", e)
	}
	s.noSecretBelow(s.mac.Path("state", "pods"))
	s.clear()
}

// givesToken: the Pod's own token is valid, and bound to the Pod.
func givesToken(s *scene) {
	s.join()
	p := s.awaitRunning(s.create("token", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil },
		stage.Runs("cp /var/run/secrets/kubernetes.io/serviceaccount/token /Users/admin/token.new && mv /Users/admin/token.new /Users/admin/token; sleep 600")))
	var token string
	s.await("the guest has read its token", func() bool {
		token = s.guestFile(p, "Users/admin/token")
		return token != ""
	})
	review, err := s.plane.Client.AuthenticationV1().TokenReviews().Create(s.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	s.must(err)
	if !review.Status.Authenticated || review.Status.User.Username != "system:serviceaccount:default:default" {
		s.Errorf("review %+v", review.Status)
	}
	if uid := review.Status.User.Extra["authentication.kubernetes.io/pod-uid"]; len(uid) != 1 || uid[0] != string(p.UID) {
		s.Errorf("the token is bound to %v", uid)
	}
	s.clear()
}

// guestFile is what a file in the guest of a Pod holds, empty while it is not there.
func (s *scene) guestFile(p *corev1.Pod, path string) string {
	found, err := filepath.Glob(s.mac.Path("tart", "vms", "tk-"+string(p.UID)+"-*", "guest"))
	if err != nil || len(found) == 0 {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(found[0], "disk", path))
	if err != nil {
		return ""
	}
	return string(text)
}

// missesObjects: a Pod waits, with the name of what is missing, until it is there.
func missesObjects(s *scene) {
	s.join()
	p := s.create("missing", stage.Restarts(corev1.RestartPolicyNever), stage.Runs(`test "$COLOR" = green`), func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: s.name("config")}, Key: "color",
		}}}}
	})
	if w := s.awaitWaiting(p, "CreateContainerConfigError"); !strings.Contains(w.Message, s.name("config")) {
		s.Errorf("message %q", w.Message)
	}
	s.objects()
	if e := s.awaitEnd(p, corev1.PodSucceeded); e.ExitCode != 0 {
		s.Errorf("end %+v", e)
	}
	s.clear()
}

// guestWithoutAgent: what needs nothing of it runs. What waits for it fails after
// minutes, which is not tried here.
func guestWithoutAgent(s *scene) {
	s.join()
	s.plan(tart.Fault{Kind: tart.AgentNever})
	s.awaitRunning(s.create("vm"))
	p := s.create("command", stage.Runs("exit 0"))
	s.awaitPod("waits for the guest", p, func(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) == 1 })
	s.await("its machine runs", func() bool { return len(s.processes(stage.RoleRun, p.UID)) == 1 })
	if now := s.get(p); now.Status.ContainerStatuses[0].State.Running != nil {
		s.Errorf("container %+v", now.Status.ContainerStatuses[0])
	}
	s.clear()
}

// meetsDeadline: activeDeadlineSeconds ends the Pod, also across an agent's end.
func meetsDeadline(s *scene) {
	s.join()
	// It must run before its deadline, on a busy machine too.
	p := s.create("deadline", stage.Runs("sleep 600"), func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(60)) })
	s.awaitRunning(p)
	s.restartAgent(9)
	now := s.awaitPod("has failed", p, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if now.Status.Reason != "DeadlineExceeded" {
		s.Errorf("reason %q, message %q", now.Status.Reason, now.Status.Message)
	}
	s.clear()
}
