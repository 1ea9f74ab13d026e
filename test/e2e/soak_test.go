package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

var (
	soakFlag        = flag.Duration("soak", time.Hour, "how long TestSoak keeps a fleet busy, on the vendor's clock")
	soakSeedFlag    = flag.Uint64("soak-seed", 1, "the seed of what happens to it")
	soakFiguresFlag = flag.String("soak-figures", "", "folder for what it measured, soak.json")
	// picturesFlag takes the program of -alerts, whose time goes as fast as the vendor's.
	picturesFlag = flag.String("soak-pictures", "", "folder for pictures of the chart's dashboards over that time")
)

const (
	// soakScale is how much faster the vendor's clock runs: a day takes 24 minutes.
	soakScale = 60
	// soakMacs are in the project, soakFleet of them in the fleet.
	soakMacs  = 8
	soakFleet = 6
	// atOneTime is the most that happens to the fleet at one time.
	atOneTime = 3
)

// soak is a fleet that is kept busy.
type soak struct {
	*fleet
	random *rand.Rand
	ci     *ci
	watch  *watch
	usage  *usage
	began  time.Time
}

// TestSoak keeps a fleet busy: jobs come and go, and one thing after the other happens to it. Beside it looks somebody
// who knows the vendor, the Nodes and the jobs alone: no Mac is shared or dirty, none is lost, and each job ends as it should.
// After each of these the fleet comes whole by itself. What the processes hold is measured then, with no job there.
func TestSoak(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	if *picturesFlag != "" && *alertsProgram == "" {
		t.Fatal("-soak-pictures needs -alerts, the program that draws them: make soak builds it")
	}
	s := &soak{fleet: start(t, world.Options{Hosts: soakMacs, TimeScale: soakScale}), random: rand.New(rand.NewPCG(*soakSeedFlag, 0))}
	s.apply(s.example("operate/health-checks.md", "health-check"))
	s.setProfile(`{"spec":{"rollout":{"soak":"1s","maxUnavailable":2}}}`)
	s.awaitPool(soakMacs)
	s.scale(soakFleet)
	s.awaitRunning(soakFleet)
	scraper := s.scraper()
	s.drawDashboardsAtTheEnd(scraper)
	s.ci, s.watch, s.usage = newCI(s.fleet, *soakSeedFlag), newWatch(s.fleet), newUsage(s.fleet, scraper)
	s.began = time.Now()
	for length := *soakFlag / soakScale; time.Since(s.began) < length; {
		s.happens()
		s.comesWhole()
		s.ci.pause()
		s.usage.measure(s.hours())
		s.ci.resume()
	}
	s.ci.stop()
	s.watch.stop()
	if all, none := s.noneLost(); !none {
		s.Error(all)
	}
	s.usage.checkFlat()
	s.report()
}

// drawDashboardsAtTheEnd has Prometheus scrape the manager until then, where pictures are asked for.
func (s *soak) drawDashboardsAtTheEnd(scraper string) {
	s.Helper()
	if *picturesFlag == "" {
		return
	}
	const every = 250 * time.Millisecond
	s.watchAlerts(scraper, trouble{every: every}, "-step", (every * soakScale).String(), "-pictures", *picturesFlag,
		"-dashboards", filepath.Join(filepath.Dir(rulesFile), "dashboards", "*.json"))
}

// hours on the vendor's clock.
func (s *soak) hours() float64 { return time.Since(s.began).Hours() * soakScale }

// happens lets up to atOneTime things happen to the fleet, and ends them.
func (s *soak) happens() {
	s.Helper()
	var mends []func()
	var names []string
	for _, i := range s.random.Perm(len(soakTroubles))[:1+s.random.IntN(atOneTime)] {
		c := soakTroubles[i]
		s.Logf("hour %.1f: %s", s.hours(), c.name)
		if mend := c.begin(s); mend != nil {
			mends = append(mends, mend)
		}
		names = append(names, c.name)
		s.passes(time.Duration(1+s.random.IntN(8)) * time.Second)
	}
	for _, mend := range mends {
		s.passes(time.Duration(1+s.random.IntN(8)) * time.Second)
		mend()
	}
	s.usage.note(s.hours(), strings.Join(names, ", "))
}

// passes lets time pass, in which others are at work.
func (f *fleet) passes(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.Context().Done():
	}
}

// comesWhole waits until all Macs of the fleet are nodes as its profile wants them, and the others are free.
func (s *soak) comesWhole() {
	s.Helper()
	s.awaitRunning(soakFleet)
	s.awaitPool(soakMacs - soakFleet)
	s.await("the profile to be rolled out", func() (string, bool) { return s.profileSays(infrav1.RolledOutCondition, metav1.ConditionTrue) })
	s.await("each server of the project to be a Host", s.noneLost)
}

// noneLost: each server of the project is a Host, and no Host is of another.
func (s *soak) noneLost() (string, bool) {
	s.Helper()
	var servers, hosts []string
	for _, server := range s.world.Vendor().Servers() {
		servers = append(servers, server.ID)
	}
	for _, h := range s.hosts() {
		hosts = append(hosts, h.Spec.ServerID)
	}
	slices.Sort(servers)
	slices.Sort(hosts)
	return fmt.Sprintf("servers %v, Hosts of %v, want %d of both", servers, hosts, soakMacs), slices.Equal(servers, hosts) && len(servers) == soakMacs
}

func (s *soak) report() {
	s.Helper()
	s.Logf("%.1f hours: %s", s.hours(), s.ci)
	if *soakFiguresFlag == "" {
		return
	}
	s.usage.report.Settings = fmt.Sprintf("%.1f hours of the vendor's clock, seed %d, %d troubles", s.hours(), *soakSeedFlag, len(s.usage.Happened))
	s.usage.report.Add(s.ci.figures()...)
	s.usage.write(*soakFiguresFlag)
}
