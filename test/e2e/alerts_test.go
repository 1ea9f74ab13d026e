package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/sandbox/subprocess"
	"github.com/macfleet/macfleet/sandbox/world"
)

var alertsProgram = flag.String("alerts", "", "the program of test/alerts, which watches the alerts; without it, TestAlertsFire is left out")

// TestAlertsFire brings about what alerts of the chart speak of, and sees Prometheus' rule manager, which
// scrapes the manager, fire it, nothing beside it, and nothing any more once it is mended.
func TestAlertsFire(t *testing.T) {
	if *alertsProgram == "" {
		t.Skip("make alerts plays it: it needs the program of test/alerts")
	}
	f := start(t, world.Options{Hosts: 5})
	f.awaitPool(5)
	f.scale(3)
	f.awaitRunning(3)
	token := f.scraper()
	t.Run("at rest", func(t *testing.T) { f.on(t).quiet(token, 2*time.Hour) })
	for _, c := range troubles {
		t.Run(cmp.Or(c.name, c.alerts[0]), func(t *testing.T) { f.on(t).fires(token, c) })
	}
}

var rulesFile = filepath.Join("..", "..", "charts", "macfleet", "files", "alerts.yaml")

// quiet watches for so long, of the watch's time, and sees no alert.
func (f *fleet) quiet(token string, long time.Duration) {
	w := f.watchAlerts(token, trouble{})
	f.await("hours without an alert", func() (string, bool) {
		now := w.read()
		if names := now.firing(); len(names) > 0 {
			f.Fatalf("at rest, after %s, fires %v", now.Passed, names)
		}
		passed, err := time.ParseDuration(now.Passed)
		return now.Passed, err == nil && passed >= long
	})
}

// fires makes the trouble, sees its alerts, mends it, and sees them end.
func (f *fleet) fires(token string, c trouble) {
	w := f.watchAlerts(token, c)
	began, missing := time.Now(), slices.Clone(c.alerts)
	mend := c.begin(f)
	f.await(fmt.Sprint(missing, " to fire"), func() (string, bool) {
		now := w.read()
		f.onlyThese(now, c)
		firing := now.firing()
		missing = slices.DeleteFunc(missing, func(alert string) bool { return slices.Contains(firing, alert) })
		return now.describe(), len(missing) == 0
	})
	f.Logf("fires after %s, %s to Prometheus", time.Since(began).Round(time.Second), w.read().Passed)
	mend()
	f.await("no alert any more", func() (string, bool) {
		now := w.read()
		f.onlyThese(now, c)
		return now.describe(), len(now.firing()) == 0
	})
}

func (f *fleet) onlyThese(now alertsNow, c trouble) {
	f.Helper()
	for _, name := range now.firing() {
		if !slices.Contains(c.alerts, name) && !slices.Contains(c.beside, name) {
			f.Fatalf("beside %v fires %s: %s", c.alerts, name, now.describe())
		}
	}
}

// alertsWatch is a running program of test/alerts.
type alertsWatch struct {
	*fleet
	url string
}

// watchAlerts starts one, from nothing: it knows of no earlier trouble.
func (f *fleet) watchAlerts(token string, c trouble, more ...string) alertsWatch {
	f.Helper()
	program, err := filepath.Abs(*alertsProgram)
	if err != nil {
		f.Fatal(err)
	}
	args := []string{"-rules", rulesFile, "-url", f.world.MetricsURL(), "-token-file", token, "-every", cmp.Or(c.every, step).String(), "-stretch", c.stretch}
	args = append(args, more...)
	log := filepath.Join(f.TempDir(), "alerts.log")
	process, err := subprocess.Start("alerts", log, exec.Command(program, args...), syscall.SIGTERM)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := process.Stop(context.Background(), time.Minute); err != nil {
			f.Errorf("stopping the watch: %v", err)
		}
	})
	var url string
	f.await("the watch to say where it is", func() (string, bool) {
		text, err := os.ReadFile(log)
		if err != nil {
			return err.Error(), false
		}
		var whole bool
		url, _, whole = strings.Cut(string(text), "\n")
		return string(text), whole && strings.HasPrefix(url, "http://")
	})
	return alertsWatch{f, url}
}

// alertsNow is what Prometheus' API says of alerts.
type alertsNow struct {
	Passed, Failed string
	Alerts         []struct {
		Labels map[string]string
		State  string
		Value  float64
	}
}

func (w alertsWatch) read() alertsNow {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.url, nil)
	if err != nil {
		w.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.Fatalf("asking for the alerts: %v", err)
	}
	defer response.Body.Close()
	var answer struct{ Data alertsNow }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		w.Fatalf("asking for the alerts: %v", err)
	}
	return answer.Data
}

func (n alertsNow) firing() []string {
	var names []string
	for _, a := range n.Alerts {
		if a.State == "firing" {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (n alertsNow) describe() string {
	seen := []string{"after " + n.Passed, n.Failed}
	for _, a := range n.Alerts {
		seen = append(seen, fmt.Sprintf("%s %v=%g", a.State, a.Labels, a.Value))
	}
	return strings.Join(seen, "; ")
}

// scraper makes an account that may scrape, and returns the file with its token.
func (f *fleet) scraper() string {
	f.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "scraper", Namespace: metav1.NamespaceDefault}}
	f.create(account)
	f.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scraper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "macfleet-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := f.client.SubResource("token").Create(f.Context(), account, request); err != nil {
		f.Fatal(err)
	}
	f.await("the metrics to be had", func() (string, bool) {
		code, body := f.scrape(request.Status.Token)
		return fmt.Sprintf("%d %.80s", code, body), code == http.StatusOK
	})
	file := filepath.Join(f.TempDir(), "token")
	if err := os.WriteFile(file, []byte(request.Status.Token), 0o600); err != nil {
		f.Fatal(err)
	}
	return file
}
