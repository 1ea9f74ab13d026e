package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	secret   = "abcdef.0123456789abcdef"
	password = "hunter2 hunter2"
)

// aKey is a public key that nobody has.
const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func desired() Desired {
	return Desired{
		Schema: DesiredSchema,
		Host: Host{
			Name: "ci-abc12", ProviderID: "scw-applesilicon://fr-par-1/4a6d3e4e", Epoch: 3,
			User: "m1", Address: "192.0.2.4", Zone: "fr-par-1", ServerType: "M2-M",
		},
		Agent: Agent{SHA256: strings.Repeat("ab", 32), Version: "v0.1.0"},
		Node:  Node{Labels: map[string]string{"b": "2", "a": "1"}, MaxVMs: 2},
		Mac: Mac{
			Tart:    &Tart{Version: "2.32.1", URL: "https://example.org/tart.tar.gz", SHA256: strings.Repeat("cd", 32)},
			Network: Network{Subnet: DefaultSubnet, DenyPrivate: true},
		},
		Images:  Images{PrePull: []string{"registry.test/macos/base:v1"}, GCHighPercent: 85, GCLowPercent: 80},
		Pods:    Pods{HostPaths: []string{"/Users/Shared/cache"}},
		SSHKeys: []string{aKey},
		Secrets: &Secrets{ConsolePassword: password},
		Join: &Join{
			Server: "https://192.0.2.1:6443", CA: []byte("pem"), Token: secret,
			Permit: JoinPermit{ID: "p1", NotAfter: time.Unix(1700000000, 0).UTC()},
		},
	}
}

func TestDesiredSurvivesItsEncoding(t *testing.T) {
	data, err := EncodeDesired(desired())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeDesired(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(desired(), got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeDesiredRefuses(t *testing.T) {
	data, err := EncodeDesired(desired())
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimSpace(string(data))
	cases := map[string]string{
		"empty":          "",
		"cut":            good[:len(good)/2],
		"trailing":       good + "{}",
		"unknown field":  strings.Replace(good, `"maxVMs"`, `"extra":1,"maxVMs"`, 1),
		"wrong type":     strings.Replace(good, `"token":"`+secret+`"`, `"token":["`+secret+`"]`, 1),
		"bad hash":       strings.Replace(good, strings.Repeat("ab", 32), "../../x", 1),
		"bad user":       strings.Replace(good, `"user":"m1"`, `"user":"m1; rm"`, 1),
		"root":           strings.Replace(good, `"user":"m1"`, `"user":"root"`, 1),
		"root, shouted":  strings.Replace(good, `"user":"m1"`, `"user":"ROOT"`, 1),
		"a daemon":       strings.Replace(good, `"user":"m1"`, `"user":"daemon"`, 1),
		"nobody":         strings.Replace(good, `"user":"m1"`, `"user":"Nobody"`, 1),
		"the system's":   strings.Replace(good, `"user":"m1"`, `"user":"_spotlight"`, 1),
		"three guests":   strings.Replace(good, `"maxVMs":2`, `"maxVMs":3`, 1),
		"long restart":   strings.Replace(good, `"join":{`, `"restart":"`+strings.Repeat("r", 254)+`","join":{`, 1),
		"plain tart":     strings.Replace(good, "https://example.org/tart", "http://example.org/tart", 1),
		"tart of a file": strings.Replace(good, "https://example.org/tart", "file:///tart", 1),
		"tart of nobody": strings.Replace(good, "https://example.org/tart", "https:///tart", 1),
		"bad team":       strings.Replace(good, `"url":"https`, `"teamID":"x\" or true","url":"https`, 1),
		"no epoch":       strings.Replace(good, `"epoch":3`, `"epoch":0`, 1),
		"huge":           good + strings.Repeat(" ", MaxSize),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeDesired(strings.NewReader(text))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}

func TestNewerSchemaIsNamed(t *testing.T) {
	_, err := DecodeDesired(strings.NewReader(`{"schema":"macfleet.dev/desired/v2","new":1}`))
	var schema *schemaError
	if !errors.As(err, &schema) || schema.Got != "macfleet.dev/desired/v2" {
		t.Errorf("got %v", err)
	}
}

// fleetWide says of each leaf of a Desired whether all Macs of a fleet share it.
// A new field has to be added here, and so to be thought about.
var fleetWide = map[string]bool{
	"Schema": false, // always written as DesiredSchema

	"Host.Name": false, "Host.ProviderID": false, "Host.Epoch": false, "Host.User": false,
	"Host.Address": false, "Host.Zone": false, "Host.ServerType": false, "Host.Fleet": false, "Host.KubernetesVersion": false,
	"Host.TakeOver":    false, // the first system had this Mac, and not its neighbour
	"Host.SSHPort":     false, // the manager's, where it dials another than 22
	"Host.ManagedFrom": false, // the same Mac may be managed from elsewhere tomorrow

	"Agent.SHA256": true, "Agent.Version": true,

	"Node.Labels": true, "Node.Taints": true, "Node.MaxVMs": true,

	"Mac.Tart.Version": true, "Mac.Tart.URL": true, "Mac.Tart.SHA256": true, "Mac.Tart.TeamID": true,
	"Mac.AutoLogin": true, "Mac.GuestQuotaBytes": true, "Mac.ProofReboot": true,
	"Mac.ScreenSharing": true, "Mac.AuthorizedKeys": true, "Mac.Network.HostAllow": true,
	"Mac.Network.Subnet": true, "Mac.Network.DenyPrivate": true, "Mac.Network.Allow": true, "Mac.Network.SSHFrom": true,

	"Images.PrePull": true, "Images.GCHighPercent": true, "Images.GCLowPercent": true,
	"Pods.HostPaths": true,
	"Kubelet.Port":   true, "Kubelet.ClientCA": true,

	// The first converge of an epoch installs the key, and later ones leave it.
	"Restart": false, "UpgradeKey": false,
	// Fleets that share a profile have keys of their own; checks compare them.
	"SSHKeys": false,

	"Secrets.ConsolePassword": false,

	"Join.Server": false, "Join.CA": false, "Join.Token": false,
	"Join.Permit.ID": false, "Join.Permit.NotAfter": false,
}

func TestRevisionFollowsFleetWideFieldsOnly(t *testing.T) {
	before := Revision(desired())
	seen := 0
	for _, section := range reflect.VisibleFields(reflect.TypeFor[Desired]()) {
		for _, leaf := range leaves(section) {
			seen++
			want, known := fleetWide[leaf]
			if !known {
				t.Errorf("field %s is not classified as fleet-wide or per host", leaf)
				continue
			}
			d := desired()
			disturb(field(&d, leaf))
			if changed := Revision(d) != before; changed != want {
				t.Errorf("field %s: revision changed = %v, want %v", leaf, changed, want)
			}
		}
	}
	if seen != len(fleetWide) {
		t.Errorf("%d fields exist, %d are classified", seen, len(fleetWide))
	}
}

// leaves are the fields below f that hold a value, by their paths.
func leaves(f reflect.StructField) []string {
	inner := f.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if inner.Kind() != reflect.Struct || inner == reflect.TypeFor[time.Time]() {
		return []string{f.Name}
	}
	var names []string
	for _, g := range reflect.VisibleFields(inner) {
		for _, leaf := range leaves(g) {
			names = append(names, f.Name+"."+leaf)
		}
	}
	return names
}

func field(d *Desired, path string) reflect.Value {
	v := reflect.ValueOf(d)
	for name := range strings.SplitSeq(path, ".") {
		v = reflect.Indirect(v).FieldByName(name)
	}
	return v
}

// disturb gives v another value.
func disturb(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"other": "label"}))
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Struct:
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
	case reflect.Pointer: // to what it is not set to
		v.Set(reflect.New(v.Type().Elem()))
	default:
		panic("no way to disturb a " + v.Kind().String())
	}
}

func TestRevisionIgnoresEmptyLabels(t *testing.T) {
	a, b := desired(), desired()
	a.Node.Labels, b.Node.Labels = nil, map[string]string{}
	if Revision(a) != Revision(b) {
		t.Error("empty labels are another revision than none")
	}
}

// A profile without taints is not one that says nothing about them: the agent
// would put its own.
func TestNoTaintsIsNotTheDefaultTaints(t *testing.T) {
	none, silent := desired(), desired()
	none.Node.Taints, silent.Node.Taints = []Taint{}, nil
	if Revision(none) == Revision(silent) {
		t.Error("no taints and none said are the same revision")
	}
	data, err := EncodeConfig(none)
	if err != nil {
		t.Fatal(err)
	}
	var back AgentConfig
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if back.Node.Taints == nil || len(back.Node.Taints) != 0 {
		t.Errorf("an empty list arrives as %v", back.Node.Taints)
	}
}

func TestNothingPrintsTheToken(t *testing.T) {
	d := desired()
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "desired", d, "join", d.Join)
	for _, shown := range []string{
		fmt.Sprint(d), fmt.Sprintf("%+v", d), fmt.Sprintf("%#v", d), fmt.Sprint(d.Join), fmt.Sprintf("%#v", *d.Join),
		fmt.Sprintf("%+v", *d.Join), log.String(),
	} {
		if strings.Contains(shown, secret) || strings.Contains(shown, password) {
			t.Errorf("shows the token: %s", shown)
		}
	}
}

func TestClassesAndExitsAreOneVocabulary(t *testing.T) {
	for class, exit := range map[Class]int{
		Retry: ExitRetry, Wait: ExitWait, Reboot: ExitReboot,
		Reinstall: ExitReinstall, Human: ExitHuman, Bug: ExitBug,
	} {
		if got, ok := ClassOfExit(exit); !ok || got != class {
			t.Errorf("exit %d is %q, want %q", exit, got, class)
		}
		if class.Exit() != exit {
			t.Errorf("class %q exits %d, want %d", class, class.Exit(), exit)
		}
	}
	for _, none := range []int{ExitUnchanged, ExitChanged, 1, 126, 127, -1} {
		if class, ok := ClassOfExit(none); ok {
			t.Errorf("exit %d carries class %q", none, class)
		}
	}
	if Class("new").Exit() != ExitBug {
		t.Error("an unknown class is not a bug")
	}
}

func TestDecodeReportDisarmsHostileText(t *testing.T) {
	hostile := Report{Verb: "converge", Steps: []StepReport{{
		Name: "agent\x1b[2J", Outcome: Failed, Class: Retry, Detail: strings.Repeat("x", 5000) + "\n\x00",
	}}}
	data, err := EncodeReport(hostile)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeReport(data)
	if err != nil {
		t.Fatal(err)
	}
	step, failed := got.FailedStep()
	if !failed || strings.ContainsAny(step.Name, "\x1b\n\x00") || len(step.Detail) > maxDetail {
		t.Errorf("got %q, detail of %d bytes", step.Name, len(step.Detail))
	}
	many := Report{Steps: make([]StepReport, maxSteps+1)}
	data, err = EncodeReport(many)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeReport(data); err == nil {
		t.Error("a report with too many steps is accepted")
	}
}

func FuzzDecodeReport(f *testing.F) {
	data, err := EncodeReport(Report{Verb: VerbConverge, Steps: []StepReport{{Name: "dirs", Outcome: Changed}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema":"macfleet.dev/report/v1","steps":[{"detail":"\u001b"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeReport(data)
		if err == nil && len(r.Steps) > maxSteps {
			t.Error("unbounded")
		}
	})
}

// An agent is restarted when its configuration changes, and the manager may come
// from another address each time.
func TestTheConfigDoesNotDependOnWhoPushes(t *testing.T) {
	d := desired()
	before, err := EncodeConfig(d)
	if err != nil {
		t.Fatal(err)
	}
	d.Host.ManagedFrom = "203.0.113.9"
	after, err := EncodeConfig(d)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Error(diff)
	}
}

func TestKeysThatMayLogIn(t *testing.T) {
	const type2 = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="
	for name, c := range map[string]struct {
		keys []string
		says string
	}{
		"one":          {[]string{aKey}, ""},
		"with comment": {[]string{aKey + " ada@example.com", type2}, ""},
		"options":      {[]string{`command="sh" ` + aKey}, "options"},
		"two lines":    {[]string{aKey + "\n" + type2}, "single line"},
		"no key":       {[]string{"ssh-ed25519 AAAA"}, "no SSH public key"},
		"an old type":  {[]string{"ssh-dss AAAAB3NzaC1kc3MAAACB"}, "no SSH public key"},
		"a novel":      {[]string{aKey + " " + strings.Repeat("x", maxKey)}, "single line"},
		"too many":     {slices.Repeat([]string{aKey}, maxProfileKeys+1), "more than"},
	} {
		d := desired()
		d.Mac.AuthorizedKeys = c.keys
		err := d.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	d := desired()
	d.SSHKeys, d.Mac.AuthorizedKeys = []string{aKey + " fleet"}, []string{type2 + " ada", aKey}
	if diff := cmp.Diff([]string{aKey, type2}, d.AuthorizedKeys()); diff != "" {
		t.Error(diff)
	}
}

// What a label may be is said of the profile, before there is a document: accept counts on it.
func TestLabelsOfTheNodeAreNotJudgedOnAMac(t *testing.T) {
	d := desired()
	d.Node.Labels = map[string]string{"node-role.kubernetes.io/mac": "is no value of a label"}
	if err := d.Validate(); err != nil {
		t.Error(err)
	}
}
