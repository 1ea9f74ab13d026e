package agent

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// atOnce is how many stories run at a time. They mostly wait.
const atOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// stories by name, each on a Mac of its own.
func stories() map[string]func(*scene) {
	return map[string]func(*scene){
		"joins":       joins,
		"vm":          runsVM,
		"exits":       guestEnds,
		"outlives":    outlivesAgent,
		"killed":      losesProcesses,
		"reboot":      survivesReboot,
		"deletion":    deletes,
		"reuse":       reusesName,
		"refusal":     refuses,
		"flood":       refusesWithoutAFlood,
		"image":       badImages,
		"foreign":     leavesForeignAlone,
		"garbage":     survivesGarbage,
		"away":        losesAPIServer,
		"silence":     survivesSilence,
		"not-ready":   survivesNotReady,
		"quiet":       isQuiet,
		"leak":        noticesLeak,
		"jobs":        runsJobs,
		"policies":    restartPolicies,
		"init":        initContainers,
		"beside":      besideOneAnother,
		"env":         givesEnv,
		"volumes":     givesVolumes,
		"token":       givesToken,
		"missing":     missesObjects,
		"agentless":   guestWithoutAgent,
		"deadline":    meetsDeadline,
		"short":       evictsWhenShort,
		"steps":       killedAtEachStep,
		"ended-alone": endsWithoutAgent,
	}
}

// TestLifecycle plays every story against one control plane, under Node and RBAC
// authorization with NodeRestriction, without any role for agents.
func TestLifecycle(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	dir, err := os.MkdirTemp("", "stage") // kept apart from t.TempDir, whose path is long
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	plane, err := stage.Start(t.Context(), stage.Options{Dir: filepath.Clean(dir)})
	if err != nil {
		t.Fatal(err)
	}
	seen := stage.Record(t.Context(), plane.Client, nil)
	t.Cleanup(func() {
		seen.Stop()
		if err := plane.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Logf("the control plane was up after %s", time.Since(began).Round(time.Millisecond))
	t.Run("rights", func(t *testing.T) { noRolesForAgents(t, plane) })
	t.Run("stories", func(t *testing.T) {
		for name, story := range stories() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(newScene(t, plane, seen, name))
			})
		}
	})
	t.Run("asked", func(t *testing.T) { asksOnlyWhatNodesMay(t, plane, began) })
}
