package scaleway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	productcatalog "github.com/scaleway/scaleway-sdk-go/api/product_catalog/v2alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

const zone = scw.Zone("fr-par-1")

// startOfTime has microseconds, which answers keep, and nothing finer.
var startOfTime = time.Date(2026, 3, 5, 8, 25, 47, 808092000, time.UTC)

// world is a vendor under a stepped clock, and the official SDK in front of it.
type world struct {
	*scaleway.Vendor
	t     *testing.T
	clock *clocktesting.FakeClock
	url   string
	macs  *applesilicon.API
	iam   *iam.API
}

func newWorld(t *testing.T, opts scaleway.Options) *world {
	t.Helper()
	clock := clocktesting.NewFakeClock(startOfTime)
	if opts.Clock == nil {
		opts.Clock = clock
	}
	vendor := scaleway.New(opts)
	server := httptest.NewServer(vendor)
	t.Cleanup(vendor.Close)
	t.Cleanup(server.Close)
	w := &world{Vendor: vendor, t: t, clock: clock, url: server.URL}
	client := w.client(scaleway.DefaultSecretKey)
	w.macs, w.iam = applesilicon.NewAPI(client), iam.NewAPI(client)
	return w
}

// client is an SDK client whose answers are checked against the SDK's types.
func (w *world) client(secret string, options ...scw.ClientOption) *scw.Client {
	w.t.Helper()
	client, err := scw.NewClient(append([]scw.ClientOption{
		scw.WithAPIURL(w.url),
		scw.WithAuth(scaleway.DefaultAccessKey, secret),
		scw.WithDefaultProjectID(scaleway.DefaultProjectID),
		scw.WithDefaultOrganizationID(scaleway.DefaultOrganizationID),
		scw.WithDefaultZone(zone),
		scw.WithHTTPClient(&http.Client{Transport: strict{w.t}}),
	}, options...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// strict fails the test when a success body has a field that the SDK does not know.
type strict struct{ t *testing.T }

func (s strict) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if response.StatusCode == http.StatusOK {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(sdkType(r)); err != nil {
			s.t.Errorf("%s %s does not decode strictly: %v\n%s", r.Method, r.URL.Path, err, body)
		}
	}
	return response, nil
}

// sdkType is an empty value of the type that the SDK decodes an answer into.
func sdkType(r *http.Request) any {
	path := r.URL.Path
	list := r.Method == http.MethodGet
	switch {
	case path == "/metadata":
		return &scw.ApiMetadata{}
	case strings.HasSuffix(path, "/server-types"):
		return &applesilicon.ListServerTypesResponse{}
	case strings.Contains(path, "/server-type/"):
		return &applesilicon.ServerType{}
	case strings.HasSuffix(path, "/os"):
		return &applesilicon.ListOSResponse{}
	case strings.Contains(path, "/os/"):
		return &applesilicon.OS{}
	case list && strings.HasSuffix(path, "/server-private-networks"):
		return &applesilicon.ListServerPrivateNetworksResponse{}
	case strings.HasSuffix(path, "/private-networks"):
		return &applesilicon.SetServerPrivateNetworksResponse{}
	case strings.HasSuffix(path, "/products"):
		return &productcatalog.ListPublicCatalogProductsResponse{}
	case list && strings.HasSuffix(path, "/servers"):
		return &applesilicon.ListServersResponse{}
	case strings.Contains(path, "/servers"):
		return &applesilicon.Server{}
	case list && strings.Contains(path, "/connectivity-diagnostics/"):
		return &applesilicon.ConnectivityDiagnostic{}
	case strings.HasSuffix(path, "/connectivity-diagnostics"):
		return &applesilicon.StartConnectivityDiagnosticResponse{}
	case list && strings.HasSuffix(path, "/ssh-keys"):
		return &iam.ListSSHKeysResponse{}
	default:
		return &iam.SSHKey{}
	}
}

func (w *world) create(name string) *applesilicon.Server {
	w.t.Helper()
	s, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: name, Type: "M2-L"})
	if err != nil {
		w.t.Fatalf("create %s: %v", name, err)
	}
	return s
}

// ready is a server that was created and delivered.
func (w *world) ready(name string) *applesilicon.Server {
	w.t.Helper()
	s := w.create(name)
	w.clock.Step(127 * time.Second)
	return w.expect(s.ID, applesilicon.ServerStatusReady)
}

func (w *world) pool(spec scaleway.ServerSpec) scaleway.Server {
	w.t.Helper()
	s, err := w.AddServer(w.t.Context(), spec)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) get(id string) *applesilicon.Server {
	w.t.Helper()
	s, err := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: id})
	if err != nil {
		w.t.Fatalf("get: %v", err)
	}
	return s
}

func (w *world) expect(id string, status applesilicon.ServerStatus) *applesilicon.Server {
	w.t.Helper()
	s := w.get(id)
	if s.Status != status {
		w.t.Fatalf("status is %s, want %s", s.Status, status)
	}
	return s
}

func (w *world) rename(id, name string) error {
	_, err := w.macs.UpdateServer(&applesilicon.UpdateServerRequest{ServerID: id, Name: &name})
	return err
}

func (w *world) reinstall(id string) error {
	_, err := w.macs.ReinstallServer(&applesilicon.ReinstallServerRequest{ServerID: id})
	return err
}

func (w *world) reboot(id string) error {
	_, err := w.macs.RebootServer(&applesilicon.RebootServerRequest{ServerID: id})
	return err
}

func (w *world) delete(id string) error {
	return w.macs.DeleteServer(&applesilicon.DeleteServerRequest{ServerID: id})
}

func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	if err := w.Settle(ctx); err != nil {
		w.t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
