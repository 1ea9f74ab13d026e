package main

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// runningSandbox is a sandbox of nothing but its vendor.
func runningSandbox(t *testing.T) (*scaleway.Vendor, string) {
	t.Helper()
	return sandboxOf(t, scaleway.Options{})
}

func sandboxOf(t *testing.T, options scaleway.Options) (*scaleway.Vendor, string) {
	t.Helper()
	dir := t.TempDir()
	vendor := scaleway.New(options)
	t.Cleanup(vendor.Close)
	listener, err := scaleway.Listen(t.Context(), vendor, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lock, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		if err := lock.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := (state{VendorURL: listener.URL()}).write(dir); err != nil {
		t.Fatal(err)
	}
	return vendor, dir
}

// fault runs a command of `macfleet sandbox fault`.
func fault(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"sandbox", "--dir", dir, "fault"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestFaultCommands(t *testing.T) {
	vendor, dir := runningSandbox(t)
	for _, step := range []struct {
		args string
		want []string
	}{
		{"list", []string{"no fault is armed"}},
		{"arm --call CreateServer --error out_of_stock --count 1", []string{"fault-1 armed", "CreateServer", "before the effect", "out_of_stock", "once"}},
		{"arm --call ReinstallServer --server mac-1 --after --drop --count 2", []string{"fault-2", "of mac-1", "after the effect", "closed", "2 times"}},
		{"arm --garbage html --status 502 --probability 0.25", []string{"every call", "502 garbage html", "0.25", "until cleared"}},
		{"arm --method GET --path /os$ --silence --delay 3s", []string{"GET /os$", "held for 3s", "no answer"}},
		{"list", []string{"ID", "fault-1", "fault-2", "fault-3", "fault-4", "HITS"}},
		{"clear fault-2", []string{"cleared 1"}},
	} {
		code, out, errs := fault(t, dir, strings.Fields(step.args)...)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit code %d, %q", step.args, code, errs)
		}
		for _, word := range step.want {
			if !strings.Contains(out, word) {
				t.Errorf("%s: %q does not say %q", step.args, out, word)
			}
		}
	}
	armed := vendor.Faults()
	if len(armed) != 3 || armed[0].Error != "out_of_stock" || armed[1].Probability != 0.25 || !armed[2].Silence {
		t.Errorf("armed: %+v", armed)
	}
	if code, out, _ := fault(t, dir, "clear"); code != 0 || !strings.Contains(out, "cleared 3") || len(vendor.Faults()) != 0 {
		t.Errorf("exit code %d, %q, left %+v", code, out, vendor.Faults())
	}
}

// The examples of the help are commands that work.
func TestFaultExamples(t *testing.T) {
	vendor, dir := runningSandbox(t)
	examples := 0
	for line := range strings.Lines(faultExamples) {
		args, found := strings.CutPrefix(strings.TrimSpace(line), "macfleet sandbox fault ")
		if !found {
			continue
		}
		examples++
		if code, _, errs := fault(t, dir, strings.Fields(args)...); code != 0 {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}
	if examples != 3 || len(vendor.Faults()) != 3 {
		t.Errorf("%d examples armed %+v", examples, vendor.Faults())
	}
	if code, out, _ := fault(t, dir, "--help"); code != 0 || !strings.Contains(out, faultExamples) {
		t.Errorf("exit code %d, help without the examples: %s", code, out)
	}
}

func TestFaultRefusesBadInput(t *testing.T) {
	_, dir := runningSandbox(t)
	for name, c := range map[string]struct {
		args  string
		code  int
		words []string
	}{
		"unknown verb":         {"break", 2, []string{"break", "--help"}},
		"nothing to do":        {"arm --call GetServer", 2, []string{"needs", "status"}},
		"unknown call":         {"arm --call GetServerr --drop", 2, []string{"GetServerr", "UpdateServer"}},
		"unknown error":        {"arm --error bad_mood", 2, []string{"bad_mood", "out_of_stock"}},
		"unknown garbage":      {"arm --garbage banana", 2, []string{"banana", "html"}},
		"odd status":           {"arm --status 99", 2, []string{"status"}},
		"status in words":      {"arm --status teapot", 2, []string{"teapot"}},
		"negative count":       {"arm --drop --count -1", 2, []string{"count"}},
		"more than certain":    {"arm --drop --probability 2", 2, []string{"probability"}},
		"bad pattern":          {"arm --drop --path (", 2, []string{"path"}},
		"an argument too many": {"clear fault-1 fault-2", 2, []string{"fault-2"}},
		"unknown fault":        {"clear fault-9", 2, []string{"no such fault", "fault-9"}},
		"unknown method":       {"arm --drop --method FETCH", 2, []string{"FETCH", "PATCH"}},
		"two outcomes":         {"arm --drop --silence", 2, []string{"exclude one another"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errs := fault(t, dir, strings.Fields(c.args)...)
			if code != c.code || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, want %d, and one line: %q", code, c.code, errs)
			}
			for _, word := range c.words {
				if !strings.Contains(errs, word) {
					t.Errorf("%q does not say %q", errs, word)
				}
			}
		})
	}
}

// A fault that met its calls stays in the list, for people to see that it did.
func TestUsedFaultsAreListed(t *testing.T) {
	vendor, dir := runningSandbox(t)
	if code, _, errs := fault(t, dir, "arm", "--status", "503", "--count", "1"); code != 0 {
		t.Fatal(errs)
	}
	running, err := readState(dir)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(running.VendorURL + "/apple-silicon/v1alpha1/zones/fr-par-1/servers")
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%s, %v", response.Status, err)
	}
	if _, out, _ := fault(t, dir, "list"); !regexp.MustCompile(`fault-1 .* used up +1\n`).MatchString(out) || len(vendor.Faults()) != 0 {
		t.Errorf("armed: %+v; listed:\n%s", vendor.Faults(), out)
	}
	if _, out, _ := fault(t, dir, "clear", "fault-1"); !strings.Contains(out, "cleared 1") || len(vendor.UsedFaults()) != 0 {
		t.Errorf("%q, left %+v", out, vendor.UsedFaults())
	}
}

func TestFaultWithoutASandbox(t *testing.T) {
	if code, _, errs := fault(t, filepath.Join(t.TempDir(), "none"), "list"); code != 1 || !strings.Contains(errs, "no sandbox") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	// A vendor that is stopping, or something else on its port.
	dir := t.TempDir()
	lock, err := takeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := (state{VendorURL: "http://127.0.0.1:1"}).write(dir); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := fault(t, dir, "list"); code != 1 || !strings.Contains(errs, "vendor") {
		t.Errorf("exit code %d, %q", code, errs)
	}
}

// switches are Macs that can be turned off and on.
type switches struct{ scaleway.Hardware }

func (switches) Power(context.Context, string, bool) (bool, error) { return true, nil }

// A claimed Mac goes by another name: who mistypes one is told where they are.
func TestAnUnknownMacIsToldWhereTheNamesAre(t *testing.T) {
	_, dir := sandboxOf(t, scaleway.Options{Hardware: switches{}})
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"sandbox", "--dir", dir, "mac", "off", "tuist-pool-01"}, &out, &errs)
	want := "macfleet: no such server: tuist-pool-01: the names are in the column SERVER of `macfleet sandbox --dir " + dir + " status`\n"
	if code != exitUsage || errs.String() != want {
		t.Errorf("exit code %d, %q; want %d, %q", code, errs.String(), exitUsage, want)
	}
}
