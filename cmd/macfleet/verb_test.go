package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	terminals "github.com/creack/pty"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// fleetServer answers lists with the fleet of clitest, and some with a refusal.
type fleetServer struct {
	codes map[string]int
	// change makes the fleet another one.
	change func(*snapshot.Snapshot)
	// objects are what is had by its path.
	objects map[string]any
	// writes are the methods and queries of requests that change something.
	writes []string
	// whole are the kinds of which everything was asked for, and paths what was.
	mu    sync.Mutex
	whole []string
	paths []string
}

func (f *fleetServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := clitest.Fleet()
	if f.change != nil {
		f.change(s)
	}
	w.Header().Set("Content-Type", "application/json")
	kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	f.mu.Lock()
	f.paths = append(f.paths, r.URL.Path)
	f.mu.Unlock()
	if r.Method != http.MethodGet {
		f.writes = append(f.writes, r.Method+" "+r.URL.RawQuery)
		_, _ = w.Write([]byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1alpha1","kind":"ScalewayAppleSiliconHost","metadata":{"name":"h"}}`))
		return
	}
	if code := f.codes[kind]; code != 0 {
		reasons := map[int]metav1.StatusReason{401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Reason: reasons[code], Code: int32(code), TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}})
		return
	}
	if object, known := f.objects[r.URL.Path]; known {
		_ = json.NewEncoder(w).Encode(object)
		return
	}
	items := map[string]any{
		"scalewayapplesiliconhosts": s.Hosts, "scalewayapplesiliconmachines": s.Machines, "macnodeprofiles": s.Profiles, "machines": s.CoreMachines,
		"scalewayapplesiliconclusters": s.Zones, "machinedeployments": s.Fleets, "clusters": s.Clusters, "pods": s.Pods, "nodes": s.Nodes, "machinehealthchecks": s.HealthChecks, "scalewayapplesiliconremediations": s.Remediations,
		"events": eventsAbout(s, strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "involvedObject.name=")),
	}[kind]
	name, named := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	if !named {
		f.mu.Lock()
		f.whole = append(f.whole, kind)
		f.mu.Unlock()
	}
	_, path, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
	namespace, _, _ := strings.Cut(path, "/")
	text, _ := json.Marshal(items)
	all, few := []map[string]any{}, []map[string]any{}
	_ = json.Unmarshal(text, &all)
	for _, item := range all {
		of := item["metadata"].(map[string]any)
		if (!named || of["name"] == name) && (!namespaced || of["namespace"] == namespace) {
			few = append(few, item)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": few})
}

func eventsAbout(s *snapshot.Snapshot, name string) []corev1.Event {
	return slices.DeleteFunc(slices.Clone(s.Events), func(e corev1.Event) bool { return e.InvolvedObject.Name != name })
}

// speakTo makes a server the cluster of the kubeconfig.
func speakTo(t *testing.T, f *fleetServer) {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Setenv("KUBECONFIG", kubeconfigFor(t, server.URL))
}

// kubeconfigFor is one of a cluster at this address.
func kubeconfigFor(t *testing.T, url string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c, namespace: ci}}], current-context: c}", url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const stranded = "fr-par-1-00000004-0000-4000-8000-000000000000"

func TestVerbsAndTheirExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		args  string
		codes map[string]int
		code  int
		out   string
		errs  string
	}{
		"status":                      {args: "status", out: "NEEDS A PERSON"},
		"status for programs":         {args: "status -o json", out: `"needsPerson"`},
		"status of a namespace":       {args: "status -n nowhere", out: "POOL"},
		"half of it":                  {args: "status", codes: map[string]int{"machinedeployments": 403}, code: exitPartly, out: "POOL", errs: "not shown: machinedeployments: you may not list"},
		"no rights at all":            {args: "hosts", codes: map[string]int{"scalewayapplesiliconhosts": 403}, code: exitFailed, errs: "nothing can be shown"},
		"expired":                     {args: "status", codes: map[string]int{"scalewayapplesiliconhosts": 401}, code: exitFailed, errs: "expired or were revoked"},
		"no macfleet":                 {args: "status", codes: map[string]int{"scalewayapplesiliconhosts": 404}, code: exitFailed, errs: "has no macfleet"},
		"hosts":                       {args: "hosts", out: "HOST"},
		"hosts of a phase":            {args: "hosts --phase Stranded -o name", out: "scalewayapplesiliconhost/" + stranded + "\n"},
		"a phase in small letters":    {args: "hosts --phase stranded -o name", out: "scalewayapplesiliconhost/" + stranded + "\n"},
		"a phase that is none":        {args: "hosts --phase foo", code: exitUsage, errs: "--phase foo is none of InUse, Claimed, Available"},
		"a Machine's that is none":    {args: "machines --phase foo", code: exitUsage, errs: "Releasing, Deleting"},
		"Machines of a phase":         {args: "machines --phase lost -o name", out: "scalewayapplesiliconmachine/macfleet-builders-x7k2p-00006"},
		"phases of hosts":             {args: "__complete hosts --phase =", out: "Stranded"},
		"days":                        {args: "host quarantine " + stranded + " --reason fans --for 2d --dry-run", out: "Nothing is changed"},
		"no time at all":              {args: "host quarantine " + stranded + " --reason fans --for 0", code: exitUsage, errs: "it is less than a minute"},
		"weeks":                       {args: "host quarantine " + stranded + " --reason fans --for 1w", code: exitUsage, errs: "it is written as 90m, 48h or 2d"},
		"a reboot that is taken back": {args: "host reboot " + stranded + " --cancel", code: exitFailed, errs: "waits for no reboot"},
		"a kind as kubectl has it":    {args: "explain hosts x", code: exitUsage, errs: `unknown command "hosts", did you mean host?`},
		"a verb that is nearly one":   {args: "statsu", code: exitUsage, errs: "did you mean status?"},
		"a topic that is nearly one":  {args: "help host wip", code: exitUsage, errs: "did you mean wipe?"},
		"what a verb does":            {args: "host adopt --help", out: "Take a Mac that is Foreign or NotWiped into the pool: wiped, renamed, Available.\n\nWith --trust-disk"},
		"what a give-back waits for":  {args: "host wipe --help", out: "when its wipe has begun, or is\nlate or refused"},
		"a Pod that is none":          {args: "explain pod nosuch", code: exitFailed, errs: "there is no pod nosuch in the namespace ci, which -n chooses"},
		"a Pod with its namespace":    {args: "explain pod team/nosuch", code: exitFailed, errs: "in the namespace team"},
		"hosts with labels":           {args: "hosts -l a=b", errs: "No host of the pool is as asked for."},
		"hosts as objects":            {args: "hosts -o json", out: `"kind": "ScalewayAppleSiliconHost"`},
		"hosts as YAML":               {args: "hosts -o yaml", out: "kind: List"},
		"machines":                    {args: "machines", out: "NoAvailableHost"},
		"a selector that is none":     {args: "hosts -l =", code: exitUsage, errs: "--selector"},
		"a column that is none":       {args: "hosts --sort-by colour", code: exitUsage, errs: "kept-out"},
		"an output that is none":      {args: "status -o wide", code: exitUsage, errs: "json, yaml"},
		"a host's story":              {args: "explain host 00000004", out: "macfleet host release " + stranded},
		"a Machine's":                 {args: "explain machine macfleet-builders-x7k2p-00006", out: "ServerGone"},
		"a Pod's":                     {args: "explain pod build-1", out: "Unschedulable"},
		"a Pod's, with no more rights": {
			args: "explain pod build-1", code: exitPartly, out: "Unschedulable", errs: "not shown: scalewayapplesiliconmachines: you may not list",
			codes: map[string]int{
				"scalewayapplesiliconhosts": 403, "scalewayapplesiliconmachines": 403, "scalewayapplesiliconclusters": 403, "scalewayapplesiliconremediations": 403,
				"macnodeprofiles": 403, "machines": 403, "machinedeployments": 403, "machinehealthchecks": 403, "nodes": 403,
			},
		},
		"a profile's":                  {args: "explain profile macfleet-builders", out: "CanaryFailed"},
		"a cluster's":                  {args: "explain cluster macfleet", out: "WritesForbidden"},
		"a host's, half of it":         {args: "explain host " + stranded, codes: map[string]int{"scalewayapplesiliconmachines": 403}, code: exitPartly, out: "macfleet host release", errs: "not shown: scalewayapplesiliconmachines"},
		"a host's, without rights":     {args: "explain host " + stranded, codes: map[string]int{"scalewayapplesiliconhosts": 403}, code: exitFailed, errs: "scalewayapplesiliconhosts: you may not list them"},
		"for programs":                 {args: "explain host 00000004 -o json", out: `"commands"`},
		"an unknown name":              {args: "explain host fr-par-1-00000004-0000-4000-8000-000000000001", code: exitFailed, errs: "did you mean " + stranded},
		"an ambiguous name":            {args: "explain machine macfleet-builders", code: exitFailed, errs: "one of several"},
		"no name":                      {args: "explain host", code: exitUsage, errs: "say which host"},
		"an unknown kind":              {args: "explain vm x", code: exitUsage, errs: `unknown command "vm"`},
		"a timeline":                   {args: "timeline 00000007", out: "the vendor showed the reinstall"},
		"a timeline of a Machine":      {args: "timeline macfleet-builders-x7k2p-00002", out: "UpdateFailed"},
		"a timeline of nothing":        {args: "timeline nonsense", code: exitFailed, errs: "macfleet hosts and macfleet machines (no event tells of one that is gone, either: events are kept for about an hour"},
		"one of nothing, unseen":       {args: "timeline nonsense", codes: map[string]int{"events": 403}, code: exitFailed, errs: "whether it is gone cannot be told: events: you may not list"},
		"a host by its kind":           {args: "explain host scalewayapplesiliconhost/" + stranded, out: "macfleet host release " + stranded},
		"a host by its short kind":     {args: "host release sash/" + stranded + " --dry-run", out: "Nothing is changed"},
		"a host of a namespace":        {args: "host release macfleet-system/" + stranded + " --dry-run", code: exitFailed, errs: "there is no host macfleet-system/" + stranded},
		"a host that is a Machine":     {args: "explain host samm.infrastructure.cluster.x-k8s.io/" + stranded, code: exitFailed, errs: "there is no host samm.infrastructure.cluster.x-k8s.io/" + stranded},
		"a Machine by its kind":        {args: "explain machine scalewayapplesiliconmachine/macfleet-builders-x7k2p-00006", out: "ServerGone"},
		"one by Cluster API's kind":    {args: "machine check machine.cluster.x-k8s.io/macfleet-builders-x7k2p-00004", code: exitFailed, errs: "has no Mac"},
		"a Machine's Mac by its kind":  {args: "machine doctor samm/macfleet-builders-x7k2p-00004", code: exitFailed, errs: "there is no Mac of Machine macfleet-system/macfleet-builders-x7k2p-00004"},
		"a timeline by a host's kind":  {args: "timeline sash/00000007", out: "the vendor showed the reinstall"},
		"and by a Machine's":           {args: "timeline samm/macfleet-builders-x7k2p-00002", out: "UpdateFailed"},
		"a Pod by its kind":            {args: "explain pod pod/build-1", out: "Unschedulable"},
		"a profile by its kind":        {args: "rollout pause macnodeprofile.infrastructure.cluster.x-k8s.io/macfleet-builders --yes", out: "Done"},
		"a profile of a namespace":     {args: "rollout pause macfleet-system/macfleet-builders --yes", out: "Done"},
		"a cluster by its kind":        {args: "explain cluster cluster.cluster.x-k8s.io/macfleet", out: "WritesForbidden"},
		"a Cluster by its kind":        {args: "cluster pause cluster.cluster.x-k8s.io/nosuch", code: exitFailed, errs: "there is no cluster nosuch"},
		"a fleet by its kind":          {args: "fleet ssh-key replace md/deploy --yes", code: exitFailed, errs: "is of fleet macfleet-system/deploy,"},
		"a rollout":                    {args: "rollout status macfleet-builders", out: "CanaryFailed"},
		"nobody to ask":                {args: "host release " + stranded, code: exitUsage, out: "- host " + stranded, errs: "--yes"},
		"done":                         {args: "host release " + stranded + " --yes", out: "Done"},
		"tried":                        {args: "host release " + stranded + " --dry-run", out: "Nothing is changed"},
		"refused":                      {args: "host adopt " + stranded + " --yes", code: exitFailed, errs: "macfleet host release"},
		"a name that is cut":           {args: "host release 00000004 --yes", code: exitFailed, errs: "did you mean"},
		"without sight of Machines":    {args: "host release " + stranded + " --yes", codes: map[string]int{"scalewayapplesiliconmachines": 403}, code: exitFailed, errs: "cannot be told"},
		"without sight of Pods":        {args: "host release " + stranded + " --yes", codes: map[string]int{"pods": 403}, out: "which Pods run on it cannot be told"},
		"no reason":                    {args: "host quarantine " + stranded, code: exitUsage, errs: "--reason"},
		"a pause":                      {args: "rollout pause macfleet-builders --yes", out: "Done"},
		"an undo of nothing":           {args: "rollout undo macfleet-builders --yes", code: exitFailed, errs: "nothing was yet"},
		"a resume of what is at work":  {args: "rollout resume macfleet-builders --yes", code: exitFailed, errs: "not paused"},
		"a restart of an agent":        {args: "machine restart-agent macfleet-builders-x7k2p-00003 --yes", code: exitFailed, errs: "is no node yet"},
		"with its namespace":           {args: "machine check macfleet-system/macfleet-builders-x7k2p-00004", code: exitFailed, errs: "has no Mac"},
		"a Machine's name that is cut": {args: "machine pause macfleet-builders-x7k2p-0000 --yes", code: exitFailed, errs: "did you mean"},
		"a paused Machine":             {args: "machine pause macfleet-builders-x7k2p-00001 --yes", out: "Done"},
		"a resume of one at work":      {args: "machine resume macfleet-builders-x7k2p-00001 --yes", code: exitFailed, errs: "is not paused"},
		"no health check":              {args: "machine remediate macfleet-builders-x7k2p-00001 --yes", code: exitFailed, errs: "the Cluster API Machine of it is not to be seen"},
		"a copy that is none":          {args: "machine delete-copy macfleet-builders-x7k2p-00001 --yes", code: exitFailed, errs: "is claimed for it"},
		"a serial number":              {args: "host accept-serial " + stranded, code: exitUsage, errs: "--serial"},
		"an unknown Mac's":             {args: "host accept-serial " + stranded + " --serial C02 --yes", code: exitFailed, errs: "was never recorded"},
		"a fleet without a key":        {args: "fleet ssh-key replace macfleet-builders --yes", codes: map[string]int{"macfleet-builders-ssh": 404}, code: exitFailed, errs: "has no Secret macfleet-builders-ssh"},
		"no fleet's Secret":            {args: "fleet ssh-key replace deploy --yes", code: exitFailed, errs: "no Machine and no MachineDeployment is of fleet macfleet-system/deploy, whose Secret would be deploy-ssh"},
		"keys that may not be read":    {args: "fleet ssh-key finish macfleet-builders", codes: map[string]int{"macfleet-builders-ssh": 403}, code: exitFailed, errs: "you may not read the Secret macfleet-system/macfleet-builders-ssh"},
		"a fleet's Machines unseen":    {args: "fleet retire macfleet-builders", codes: map[string]int{"machines": 403}, code: exitFailed, errs: "whose keys these are cannot be told"},
		"a fleet's templates unseen":   {args: "fleet retire macfleet-builders", codes: map[string]int{"scalewayapplesiliconmachinetemplates": 403}, code: exitFailed, errs: "whose keys these are cannot be told"},
		"a Cluster that is none":       {args: "cluster pause nosuch --yes", code: exitFailed, errs: "there is no cluster nosuch"},
		"names of fleets":              {args: "__complete fleet retire m", out: "macfleet-builders"},
		"names for a restart":          {args: "__complete machine restart-agent m", out: "macfleet-builders-x7k2p-00001"},
		"a port that is none":          {args: "timeline 00000007 --port 70000", code: exitUsage, errs: "--port 70000 is not a port"},
		"what the pool costs":          {args: "pool cost", out: "FLOOR UNTIL"},
		"costs for programs":           {args: "pool cost -o json", out: `"pricesOf"`},
		"no orders":                    {args: "pool order", errs: "No server is on order."},
		"an unknown verb of pool":      {args: "pool empty", code: exitUsage, errs: `unknown command "empty"`},
		"a board on no port":           {args: "board --port 70000", code: exitUsage, errs: "--port 70000"},
		"a board of no macfleet":       {args: "board", codes: map[string]int{"scalewayapplesiliconhosts": 404}, code: exitFailed, errs: "has no macfleet"},
		"logs of minus one line":       {args: "machine logs m --tail -1", code: exitUsage, errs: "--tail -1"},
		"an unknown command":           {args: "nonsense --help", code: exitUsage, errs: `unknown command "nonsense"`},
		"an unknown verb of host":      {args: "host fly --help", code: exitUsage, errs: `unknown command "fly"`},
		"an unknown topic":             {args: "help nonsense", code: exitUsage, errs: "unknown command"},
		"help":                         {args: "help explain host", out: "The story of a Mac"},
		"an unknown shell":             {args: "completion tcsh", code: exitUsage, errs: `unknown shell "tcsh"`},
		"no shell":                     {args: "completion", code: exitUsage, errs: "bash, zsh, fish, powershell"},
		"names of hosts":               {args: "__complete explain host fr", out: stranded},
		"names of Machines":            {args: "__complete explain machine m", out: "macfleet-builders-x7k2p-00001"},
		"names of profiles":            {args: "__complete rollout pause m", out: "macfleet-builders"},
		"completion is to be seen":     {args: "--help", out: "completion "},
	} {
		t.Run(name, func(t *testing.T) {
			speakTo(t, &fleetServer{codes: c.codes})
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) {
				t.Errorf("%s: exit code %d, want %d\n%s\n%s", c.args, code, c.code, &out, &errs)
			}
			if code != 0 && strings.Count(errs.String(), "\n") != max(1, len(c.codes)) {
				t.Errorf("%s: not one line: %q", c.args, &errs)
			}
		})
	}
}

// A flag without which a verb does nothing says so in the verb's help.
func TestHelpSaysWhichFlagsAreRequired(t *testing.T) {
	speakTo(t, &fleetServer{})
	for verb, c := range map[string]struct{ flag, says string }{
		"host quarantine":    {"--reason", "(required, except with --end)"},
		"host maintenance":   {"--reason", "(required, except with --end)"},
		"host reboot":        {"--reason", "(required, except with --cancel)"},
		"host accept-serial": {"--serial", "(required)"},
		"host prepare":       {"--host", "(required)"},
		"prepare-fleet-host": {"--host", "(required)"},
	} {
		var help, errs bytes.Buffer
		args := strings.Fields(verb)
		run(t.Context(), append(args, "--help"), &help, &errs)
		line := slices.IndexFunc(strings.Split(help.String(), "\n"), func(line string) bool {
			return strings.Contains(line, c.flag+" string") && strings.HasSuffix(line, c.says)
		})
		if !strings.HasPrefix(verb, "prepare") && verb != "host prepare" {
			args = append(args, stranded)
		}
		code := run(t.Context(), args, io.Discard, &errs)
		if line < 0 || code != exitUsage || !strings.Contains(errs.String(), c.flag) {
			t.Errorf("%s without %s ends with %d: %s\nIts help does not say %q of it:\n%s", verb, c.flag, code, &errs, c.says, &help)
		}
	}
}

// What status says to type can be typed as it stands, whatever namespace the context has.
func TestTheStoryThatStatusNames(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*snapshot.Snapshot)
		asks   string
	}{
		"a Machine": {
			change: func(s *snapshot.Snapshot) {
				*s = snapshot.Snapshot{At: s.At, Machines: s.Machines[5:]}
			},
			asks: "/namespaces/macfleet-system/scalewayapplesiliconmachines",
		},
		"a Pod": {
			change: func(s *snapshot.Snapshot) {
				*s = snapshot.Snapshot{At: s.At, Pods: s.Pods[:1]}
				s.Pods[0].Namespace = "team"
			},
			asks: "/namespaces/team/pods",
		},
	} {
		f := &fleetServer{change: c.change}
		speakTo(t, f)
		var out, errs bytes.Buffer
		run(t.Context(), []string{"status"}, &out, &errs)
		_, typed, found := strings.Cut(out.String(), "The whole story: macfleet ")
		f.paths = nil
		code := run(t.Context(), strings.Fields(typed), &out, &errs)
		if asked := slices.ContainsFunc(f.paths, func(path string) bool { return strings.HasSuffix(path, c.asks) }); !found || code != 0 || !asked {
			t.Errorf("%s: %q ends with %d, having asked for %v\n%s", name, typed, code, f.paths, &errs)
		}
	}
}

// What is gone lives on in events, and in the claim of a host that nobody released.
func TestTimelineOfWhatIsGone(t *testing.T) {
	const gone, unreleased = "macfleet-builders-x7k2p-00009", "macfleet-builders-gone"
	past := func(s *snapshot.Snapshot) {
		about := func(kind, namespace, name, reason string) corev1.Event {
			return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}, Reason: reason, LastTimestamp: clitest.Ago(0)}
		}
		s.Events = []corev1.Event{
			about("Node", "", "linux-1", "NodeReady"), about("ScalewayAppleSiliconMachine", clitest.Namespace, gone, "Released"),
			about("Node", "", gone, "Deleted"), about("ScalewayAppleSiliconHost", "", stranded, "StrandedHost"),
			about("ScalewayAppleSiliconMachine", clitest.Namespace, unreleased, "UpdateFailed"),
		}
		s.Hosts[3].Status.Server.Name = unreleased // as the vendor shows it until it is wiped
	}
	for name, c := range map[string]struct {
		args  string
		codes map[string]int
		code  int
		first string
		has   []string
		errs  string
	}{
		"a Machine":                  {args: "timeline " + gone, first: "machine macfleet-system/" + gone + " is gone. This is what its events tell: events are kept for about an hour.", has: []string{"Released", "Deleted"}},
		"with its namespace":         {args: "timeline macfleet-system/" + gone, first: "machine macfleet-system/" + gone + " is gone.", has: []string{"Released"}},
		"for programs":               {args: "timeline -o json " + gone, first: "[", has: []string{"Released"}, errs: "is gone"},
		"of another namespace":       {args: "timeline -n ci " + gone, code: exitFailed, errs: "no event tells"},
		"Machines are not seen":      {args: "timeline " + gone, codes: map[string]int{"scalewayapplesiliconmachines": 403}, code: exitFailed, errs: "no event tells"},
		"a Node is no Mac":           {args: "timeline linux-1", code: exitFailed, errs: "no event tells"},
		"one that has a host":        {args: "timeline " + unreleased, first: "machine macfleet-system/" + unreleased + " is gone, and the host " + stranded + " still bears its claim. This is", has: []string{"UpdateFailed", "StrandedHost", "it was first seen"}},
		"one whose events are gone":  {args: "timeline macfleet-builders-left", first: "machine macfleet-system/macfleet-builders-left is gone, and the host fr-par-1-00000007-0000-4000-8000-000000000000 still bears its claim. No event tells of it any more", has: []string{"the vendor showed the reinstall"}},
		"its events are not seen":    {args: "timeline " + unreleased, codes: map[string]int{"events": 403}, code: exitPartly, first: "machine macfleet-system/" + unreleased + " is gone, and the host " + stranded + " still bears its claim. Its events could not be read.", errs: "not shown: events"},
		"a host with such a Machine": {args: "timeline 00000004", first: "TIME", has: []string{"StrandedHost", "UpdateFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			speakTo(t, &fleetServer{codes: c.codes, change: past})
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(c.args), &out, &errs)
			if code != c.code || !strings.HasPrefix(out.String(), c.first) || !strings.Contains(errs.String(), c.errs) || errs.Len() > 0 != (c.errs != "") {
				t.Errorf("exit code %d, want %d\n%s\n%s", code, c.code, &out, &errs)
			}
			for _, has := range c.has {
				if !strings.Contains(out.String(), has) {
					t.Errorf("tells nothing of %s:\n%s", has, &out)
				}
			}
		})
	}
}

func TestCompletionOfEachShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"completion", shell}, &out, &errs); code != 0 || !strings.Contains(out.String(), "macfleet") {
			t.Errorf("%s: exit code %d, %d bytes, %s", shell, code, out.Len(), &errs)
		}
	}
}

// Who ends a verb in its middle has to know what is done already: the next deletion obeys it.
func TestWhatIsDoneIsToldToWhoInterrupts(t *testing.T) {
	for says, ended := range map[string]error{
		"macfleet: interrupted\n": context.Canceled,
		"macfleet: interrupted: not all of it is done: context canceled. Done, and to be taken back by hand where it is not wanted: the policy of m\n": fmt.Errorf("wiping: %w", act.PartlyError{Done: []string{"the policy of m"}, Err: context.Canceled}),
	} {
		ctx, cancel := context.WithCancel(t.Context())
		root := &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { cancel(); return ended }}
		root.SetArgs(nil)
		var errs bytes.Buffer
		if code := execute(ctx, root, io.Discard, &errs); code != exitInterrupted || errs.String() != says {
			t.Errorf("exit code %d, says %q, want %q", code, &errs, says)
		}
	}
}

// Only --yes changes something where nobody can be asked, and a dry run is one for the
// API server, too.
func TestWhatIsSent(t *testing.T) {
	for args, want := range map[string]string{
		"host release " + stranded:                "",
		"host release " + stranded + " --yes":     "PATCH ",
		"host release " + stranded + " --dry-run": "PATCH dryRun=All",
	} {
		f := &fleetServer{}
		speakTo(t, f)
		var out, errs bytes.Buffer
		run(t.Context(), strings.Fields(args), &out, &errs)
		if got := strings.Join(f.writes, ","); got != want {
			t.Errorf("%s sends %q, want %q", args, got, want)
		}
	}
}

// The Clusters are looked at for who deletes a Machine; who may not see them is not held up.
func TestAPausedClusterIsSeen(t *testing.T) {
	change := func(s *snapshot.Snapshot) {
		s.Clusters = []clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "macfleet"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}}
		m := &s.Machines[0]
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "Machine", Name: m.Name, UID: "core", Controller: ptr.To(true)}}
		s.CoreMachines = []clusterv1.Machine{{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: "core"}, Spec: clusterv1.MachineSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{Name: m.Name}}}}
	}
	for code, said := range map[int]bool{0: true, http.StatusForbidden: false} {
		speakTo(t, &fleetServer{change: change, codes: map[string]int{"clusters": code}})
		var out, errs bytes.Buffer
		got := run(t.Context(), strings.Fields("host wipe fr-par-1-00000001-0000-4000-8000-000000000000 --dry-run"), &out, &errs)
		if got != 0 || strings.Contains(out.String(), "waits while its Cluster") != said {
			t.Errorf("clusters %d: exit code %d\n%s\n%s", code, got, &out, &errs)
		}
	}
}

// On a terminal a person is asked, and a no changes nothing.
func TestAPersonIsAsked(t *testing.T) {
	for answer, c := range map[string]struct{ code, writes int }{"y\n": {0, 1}, "yes\n": {0, 1}, "n\n": {exitFailed, 0}, "\n": {exitFailed, 0}} {
		keyboard, terminal, err := terminals.Open()
		if err != nil {
			t.Skipf("no terminals here: %v", err)
		}
		f := &fleetServer{}
		speakTo(t, f)
		if _, err := keyboard.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		root := newRoot()
		root.SetIn(terminal)
		root.SetOut(&out)
		root.SetErr(&errs)
		root.SetArgs([]string{"host", "release", stranded})
		err = root.ExecuteContext(t.Context())
		if (err != nil) != (c.code != 0) || len(f.writes) != c.writes || !strings.HasSuffix(errs.String(), "Go on? [y/N] ") {
			t.Errorf("%q: %v, %d writes, asks %q", answer, err, len(f.writes), &errs)
		}
		// What is printed goes to no terminal here: who answers reads the plan before the question.
		if plan := out.String(); !strings.HasPrefix(errs.String(), strings.TrimSuffix(plan, "Done: it is recorded, and the manager does the rest.\n")) || plan == "" {
			t.Errorf("%q: the plan is %q, and before the question stands %q", answer, plan, &errs)
		}
		keyboard.Close()
		terminal.Close()
	}
}
