package recorded

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// world is what has to be so before a recording can come out the same.
type world struct {
	// older recordings lack keys that answers have today.
	older bool
	// moved are keys whose values changed since.
	moved []string
	// sealed is how credentials were hidden at the time.
	sealed scaleway.SealedMode
	// noStock is a type that was sold out.
	noStock string
	// retired is an image that was on offer.
	retired *scaleway.OS
	// stranger makes the calls with an unknown key.
	stranger bool
}

var sonoma144 = scaleway.OS{
	ID: "e08d1e5d-b4b9-402a-9f9a-97732d17e374", Name: "macos-sonoma-14.4", Label: "macOS Sonoma 14.4",
	Family: "Sonoma", Version: "14.4", Xcode: "15", Types: []string{"M1-M", "M2-M", "M2-L"},
	ImageURL: "https://scw-apple-silicon.s3.fr-par.scw.cloud/scw-console/os/macos-sonoma.png",
}

// The bodies of 2021 knew neither credentials apart from vnc_url, nor images,
// commitments, networks, and sealed nothing.
var year2021 = world{older: true, sealed: scaleway.SealNever}

// Stock and default images of 2025 are not today's; images had no tags,
// descriptions and delivery flags then.
var catalogue2025 = world{older: true, moved: []string{"stock", "default_os"}}

// The price list of early July 2025 had other estimates and another bandwidth
// than the one of three weeks later, which is the simulator's.
var prices2025 = world{older: true, moved: append(slices.Clone(catalogue2025.moved),
	"kg_co2_equivalent", "m3_water_usage", "public_bandwidth")}

var worlds = map[string]world{
	"cli-2021-branch-create-401-1.cassette.yaml":                  {stranger: true},
	"cli-2021-branch-create-401-2.cassette.yaml":                  {stranger: true},
	"cli-2021-branch-create-out-of-stock-1.cassette.yaml":         {noStock: "M1-M"},
	"cli-2021-branch-create-out-of-stock-2.cassette.yaml":         {noStock: "M1-M"},
	"cli-2021-m1-server-ssh-simple.cassette.yaml":                 year2021,
	"cli-main-os-display.cassette.yaml":                           {older: true, retired: &sonoma144},
	"cli-main-server-type-list.cassette.yaml":                     catalogue2025,
	"cli-old-server-type-list-1.cassette.yaml":                    prices2025,
	"extract-409-already-exists-mnq.cassette.yaml":                {},
	"extract-409-transient-vpcgw.cassette.yaml":                   {},
	"extract-429-block.cassette.yaml":                             {},
	"extract-list-server-private-networks-empty.cassette.yaml":    {},
	"extract-list-servers-empty.cassette.yaml":                    {},
	"extract-metadata.cassette.yaml":                              {},
	"tf-2021-02-05-m1-server-basic.cassette.yaml":                 year2021,
	"tf-2024-04-02-m1-server-basic.cassette.yaml":                 year2021, // the recording of 2021, converted
	"tf-2026-01-08-branch-runner-basic-github.cassette.yaml":      {},
	"tf-2026-03-05-fullpoll-server-basic.cassette.yaml":           {},
	"tf-2026-03-05-main-action-reboot-server-basic.cassette.yaml": {},
	"tf-2026-03-05-main-data-source-os-basic.cassette.yaml":       {},
	"tf-2026-03-05-main-server-basic.cassette.yaml":               {},
	"tf-2026-03-05-main-server-enable-disabled-vpc.cassette.yaml": {},
	"tf-2026-03-05-main-server-enable-vpc.cassette.yaml":          {},
	"tf-iam-list-iamssh-keys-basic.cassette.yaml":                 {},
	"tf-iam-ssh-key-basic.cassette.yaml":                          {},
}

// notServed are the recorded endpoints that the simulator answers 501. A new line
// here is a gap, a missing one is an endpoint that came to be served.
var notServed = []string{
	"DELETE /vpc/v2/regions/fr-par/private-networks/{id}",
	"DELETE /vpc/v2/regions/fr-par/vpcs/{id}",
	"GET /audit-trail/v1alpha1/regions/fr-par/events",
	"GET /block/v1/zones/pl-waw-3/snapshots",
	"GET /ipam/v1/regions/fr-par/ips",
	"GET /vpc/v2/regions/fr-par/private-networks/{id}",
	"GET /vpc/v2/regions/fr-par/vpcs/{id}",
	"POST /apple-silicon/v1alpha1/zones/fr-par-1/runners",
	"POST /mnq/v1beta1/regions/fr-par/activate-sqs",
	"POST /vpc-gw/v2/zones/fr-par-1/gateway-networks",
	"POST /vpc/v2/regions/fr-par/private-networks",
	"POST /vpc/v2/regions/fr-par/vpcs",
	"PUT /apple-silicon/v1alpha1/zones/fr-par-1/servers/{id}/private-networks",
}

func TestReplay(t *testing.T) {
	var skipped []string
	for _, path := range files(t, recordings(t)) {
		name := filepath.Base(path)
		t.Run(strings.TrimSuffix(name, ".cassette.yaml"), func(t *testing.T) {
			then, known := worlds[name]
			if !known {
				t.Fatal("a recording without a world to replay it in")
			}
			skipped = append(skipped, replay(t, load(t, path), then)...)
		})
	}
	slices.Sort(skipped)
	skipped = slices.Compact(skipped)
	if diff := cmp.Diff(notServed, skipped); diff != "" {
		t.Errorf("endpoints not served (- listed, + found):\n%s", diff)
	}
	t.Logf("recorded endpoints not served:\n%s", strings.Join(skipped, "\n"))
}

// replay makes every recorded call to a simulator and compares its answers. It
// gives the endpoints that are not served.
func replay(t *testing.T, c cassette, then world) []string {
	t.Helper()
	clock := clocktesting.NewFakeClock(c.Interactions[0].at(t))
	took := c.measure(t)
	checkDefaults(t, took)
	vendor := scaleway.New(options(c, took, then, clock))
	defer vendor.Close()
	if then.noStock != "" {
		vendor.SetStock(then.noStock, scaleway.NoStock)
	}
	site := httptest.NewServer(vendor)
	defer site.Close()

	compare := &comparison{t: t, older: then.older, moved: then.moved, ids: map[string]string{}}
	var skipped, unmade []string
	compared := 0
	for i, e := range c.Interactions {
		if ahead := e.at(t).Sub(clock.Now()); ahead > 0 {
			clock.Step(ahead)
		}
		status, header, body := send(t, site.URL, compare, e, then)
		if status == http.StatusNotImplemented {
			skipped = append(skipped, endpoint(e.Request.Method, e.path(t)))
			unmade = append(unmade, e.made()...)
			continue
		}
		if e.mentions(unmade) {
			continue
		}
		compared++
		where := e.Request.Method + " " + endpoint("", e.path(t))
		if status != e.Response.Code {
			t.Fatalf("exchange %d, %s: recorded %d, ours %d: %s", i, where, e.Response.Code, status, body)
		}
		if want, got := e.Response.Headers.Get("Content-Type"), header.Get("Content-Type"); want != got {
			t.Errorf("exchange %d, %s: content type recorded %q, ours %q", i, where, want, got)
		}
		compare.bodies(where, e.Response.Body, body)
		if t.Failed() {
			t.Fatalf("stopped at exchange %d", i)
		}
	}
	t.Logf("compared %d of %d exchanges", compared, len(c.Interactions))
	return skipped
}

// options are a vendor as slow as the recorded one. All recordings come from
// organisations of the vendor's own, which have no floor.
func options(c cassette, took delays, then world, clock *clocktesting.FakeClock) scaleway.Options {
	catalogue := scaleway.DefaultCatalogue()
	timings := scaleway.DefaultTimings()
	for i := range catalogue.Types {
		kind := &catalogue.Types[i]
		if kind.Name == took.serverType {
			kind.Delivery = took.delivery
			kind.Zones = []string{"fr-par-1"} // where M1-M was, too
		}
		if kind.Name == then.noStock {
			kind.Zones = []string{"fr-par-1"}
		}
	}
	if then.retired != nil {
		catalogue.OSes = append(catalogue.OSes, *then.retired)
	}
	timings.Reboot, timings.VPC = took.reboot, took.vpc
	return scaleway.Options{
		Clock: clock, Catalogue: &catalogue, Timings: &timings, Floor: scaleway.NoFloor,
		Knobs: scaleway.Knobs{Sealed: then.sealed}, OrganizationID: c.organization(),
	}
}

var idPattern = regexp.MustCompile(`"id": ?"([0-9a-f-]{36})"`)

// made are the identifiers of what a recorded call made.
func (e exchange) made() []string {
	if e.Request.Method == http.MethodGet {
		return nil
	}
	var ids []string
	for _, match := range idPattern.FindAllStringSubmatch(e.Response.Body, -1) {
		ids = append(ids, match[1])
	}
	return ids
}

// mentions says whether an exchange is about something that a call made which is
// not served: a runner, an attachment to a private network.
func (e exchange) mentions(ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool {
		return strings.Contains(e.Request.URL, id) || strings.Contains(e.Response.Body, id)
	})
}

func send(t *testing.T, site string, compare *comparison, e exchange, then world) (int, http.Header, string) {
	t.Helper()
	var body io.Reader
	if e.Request.Method != http.MethodGet { // some recorders put the answer into a GET
		body = strings.NewReader(compare.translate(e.Request.Body))
	}
	request, err := http.NewRequestWithContext(t.Context(), e.Request.Method, site+compare.translate(e.path(t)), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Auth-Token", scaleway.DefaultSecretKey)
	if then.stranger {
		request.Header.Set("X-Auth-Token", "11111111-1111-1111-1111-111111111111")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// endpoint is a call without its identifiers and query.
func endpoint(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	return strings.TrimSpace(method + " " + uuidPattern.ReplaceAllString(path, "{id}"))
}

// checkDefaults holds the simulator's default delays against recorded ones.
func checkDefaults(t *testing.T, took delays) {
	t.Helper()
	near := func(what string, recorded, ours time.Duration) {
		t.Helper()
		if recorded == 0 {
			return
		}
		if ratio := float64(ours) / float64(recorded); ratio < 0.75 || ratio > 1.25 {
			t.Errorf("%s: recorded %v, default %v", what, recorded, ours)
		}
		t.Logf("%s: recorded %v, default %v", what, recorded, ours)
	}
	for _, kind := range scaleway.DefaultCatalogue().Types {
		if kind.Name == took.serverType {
			near("delivery of "+kind.Name, took.delivery, kind.Delivery)
		}
	}
	near("reboot", took.reboot, scaleway.DefaultTimings().Reboot)
}
