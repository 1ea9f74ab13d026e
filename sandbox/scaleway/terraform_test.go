package scaleway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// terraform makes the calls of the vendor's Terraform provider in its order:
// those of its resource apple_silicon_server.
type terraform struct {
	*world
	networks *applesilicon.PrivateNetworkAPI
	id       string
}

// apply creates: the provider polls every 5 s and reads what it made.
func (tf *terraform) apply(request applesilicon.CreateServerRequest) {
	tf.t.Helper()
	s, err := tf.macs.CreateServer(&request)
	must(tf.t, err)
	tf.id = s.ID
	tf.await(func(s *applesilicon.Server) bool { return s.Status == applesilicon.ServerStatusReady })
	tf.refresh()
}

// await gives up after the provider's 20 minutes.
func (tf *terraform) await(done func(*applesilicon.Server) bool) {
	tf.t.Helper()
	for range 20 * 60 / 5 {
		if done(tf.get(tf.id)) {
			return
		}
		tf.clock.Step(5 * time.Second)
	}
	tf.t.Fatal("the provider gave up")
}

func (tf *terraform) refresh() *applesilicon.Server {
	tf.t.Helper()
	s := tf.get(tf.id)
	tf.listNetworks()
	return s
}

func (tf *terraform) listNetworks() {
	tf.t.Helper()
	list, err := tf.networks.ListServerPrivateNetworks(&applesilicon.PrivateNetworkAPIListServerPrivateNetworksRequest{ServerID: &tf.id})
	must(tf.t, err)
	if len(list.ServerPrivateNetworks) != 0 || list.TotalCount != 0 {
		tf.t.Errorf("private networks of a server without one: %+v", list)
	}
}

func (tf *terraform) change(request applesilicon.UpdateServerRequest) {
	tf.t.Helper()
	request.ServerID = tf.id
	_, err := tf.macs.UpdateServer(&request)
	must(tf.t, err)
	tf.await(func(s *applesilicon.Server) bool {
		return s.VpcStatus == applesilicon.ServerPrivateNetworkStatusVpcEnabled ||
			s.VpcStatus == applesilicon.ServerPrivateNetworkStatusVpcDisabled
	})
	tf.listNetworks()
	tf.refresh()
}

// removeNetworks is a change that takes the last private_network block away.
func (tf *terraform) removeNetworks() {
	tf.t.Helper()
	set, err := tf.networks.SetServerPrivateNetworks(&applesilicon.PrivateNetworkAPISetServerPrivateNetworksRequest{
		ServerID: tf.id, PerPrivateNetworkIpamIPIDs: map[string]*[]string{},
	})
	must(tf.t, err)
	if len(set.ServerPrivateNetworks) != 0 {
		tf.t.Errorf("an empty set gave %+v", set)
	}
}

func (tf *terraform) destroy() {
	tf.t.Helper()
	tf.listNetworks() // those to detach
	tf.listNetworks() // until they are
	tf.await(func(s *applesilicon.Server) bool { return s.Status == applesilicon.ServerStatusReady })
	must(tf.t, tf.delete(tf.id))
}

// calls are those that the vendor met, repeated ones once and without the SDK's
// own question for metadata.
func (tf *terraform) calls() []string {
	var names []string
	for _, entry := range tf.Journal(0) {
		if entry.Call != "GetMetadata" && (len(names) == 0 || names[len(names)-1] != entry.Call) {
			names = append(names, entry.Call)
		}
	}
	return names
}

func TestTerraformsProvider(t *testing.T) {
	w := newWorld(t, scaleway.Options{Floor: scaleway.NoFloor})
	tf := &terraform{world: w, networks: applesilicon.NewPrivateNetworkAPI(w.client(scaleway.DefaultSecretKey))}
	tf.apply(applesilicon.CreateServerRequest{Name: "tf-m1-eager", Type: "M4-M", EnableVpc: true, PublicBandwidthBps: 1_000_000_000})
	tf.change(applesilicon.UpdateServerRequest{PublicBandwidthBps: scw.Uint64Ptr(2_000_000_000)})
	tf.change(applesilicon.UpdateServerRequest{EnableVpc: scw.BoolPtr(false)})
	tf.change(applesilicon.UpdateServerRequest{EnableVpc: scw.BoolPtr(true)})
	tf.removeNetworks()
	tf.change(applesilicon.UpdateServerRequest{AppliedRunnerConfigurations: &applesilicon.AppliedRunnerConfigurations{RunnerConfigurationIDs: []string{}}})
	s := tf.refresh()
	if want := "srn://apple-silicon.scw.eu/zones/fr-par-1/servers/" + tf.id; s.Srn != want || s.Os.Zone != zone || s.KextEnabled {
		t.Errorf("srn %q, zone of its image %q, kext %v", s.Srn, s.Os.Zone, s.KextEnabled)
	}
	tf.destroy()
	if _, err := tf.macs.GetServer(&applesilicon.GetServerRequest{ServerID: tf.id}); err == nil {
		t.Error("the server outlived its destruction")
	}

	read := []string{"GetServer", "ListServerPrivateNetworks"}
	want := append([]string{"CreateServer"}, read...)
	for range 3 {
		want = append(append(want, "UpdateServer"), append(read, read...)...)
	}
	want = append(want, "SetServerPrivateNetworks")
	want = append(append(want, "UpdateServer"), append(read, read...)...)
	want = append(append(want, read...), read...)
	want = append(want[:len(want)-2], "GetServer", "DeleteServer", "GetServer")
	if diff := cmp.Diff(want, tf.calls()); diff != "" {
		t.Error(diff)
	}
}

// What is not simulated is refused by name, at any depth, and changes nothing.
func TestWhatIsNotModelledIsRefused(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	const zonal = "/apple-silicon/v1alpha1/zones/fr-par-1"
	const order = `{"name":"x","project_id":"` + scaleway.DefaultProjectID + `","type":"M2-L",`
	one := zonal + "/servers/" + s.ID
	tests := map[string]struct{ method, path, body, named string }{
		"runner_configuration":                {"POST", zonal + "/servers", order + `"runner_configuration":{"url":"u","token":"t"}}`, "runner_configuration"},
		"applied runners":                     {"POST", zonal + "/servers", order + `"applied_runner_configurations":{"runner_configuration_ids":["` + nobody + `"]}}`, "applied_runner_configurations"},
		"a field of applied runners":          {"POST", zonal + "/servers", order + `"applied_runner_configurations":{"all":true}}`, `"all"`},
		"a field of tomorrow":                 {"POST", zonal + "/servers", order + `"tags":["a"]}`, `"tags"`},
		"runners in an update":                {"PATCH", one, `{"name":"y","applied_runner_configurations":{"runner_configuration_ids":["` + nobody + `"]}}`, "applied_runner_configurations"},
		"a field of a commitment":             {"PATCH", one, `{"name":"y","commitment_type":{"commitment_type":"none","until":"x"}}`, `"until"`},
		"a field of a reinstall":              {"POST", one + "/reinstall", `{"keep_data":true}`, `"keep_data"`},
		"a field of a reboot":                 {"POST", one + "/reboot", `{"mode":"recovery"}`, `"mode"`},
		"a field of a diagnostic":             {"POST", zonal + "/connectivity-diagnostics", `{"server_id":"` + s.ID + `","deep":true}`, `"deep"`},
		"a field of a key":                    {"POST", "/iam/v1alpha1/ssh-keys", `{"name":"k","expires_at":"x"}`, `"expires_at"`},
		"a filter":                            {"GET", zonal + "/servers?name=x", "", "the query parameter name of ListServers"},
		"batch":                               {"POST", zonal + "/batch-create-servers", `{}`, "POST " + zonal + "/batch-create-servers"},
		"a runner":                            {"POST", zonal + "/runners", `{}`, "POST " + zonal + "/runners"},
		"a private network":                   {"PUT", one + "/private-networks", `{"per_private_network_ipam_ip_ids":{"` + nobody + `":[]}}`, "per_private_network_ipam_ip_ids"},
		"attaching one":                       {"POST", one + "/private-networks", `{"private_network_id":"` + nobody + `"}`, "POST " + one},
		"products of another kind":            {"GET", productsOf("fr-par-1", "instance"), "", "product_types"},
		"products of all kinds":               {"GET", "/product-catalog/v2alpha1/public-catalog/products?zone=fr-par-1", "", "product_types"},
		"products of a region":                {"GET", strings.Replace(productsOf("fr-par", "apple_silicon"), "zone=", "region=", 1), "", "region"},
		"another product's API":               {"GET", "/instance/v1/zones/fr-par-1/servers", "", "GET /instance/v1"},
		"a method that no call of a path has": {"DELETE", zonal + "/servers", "", "DELETE " + zonal + "/servers"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response, body := w.raw(test.method, test.path, scaleway.DefaultSecretKey, test.body)
			body = strings.ReplaceAll(body, `\"`, `"`)
			if response.StatusCode != 501 || !strings.Contains(body, test.named) {
				t.Errorf("%s, want a 501 that names %s: %s", response.Status, test.named, body)
			}
		})
	}
	if all := w.Servers(); len(all) != 1 || all[0].Name != "mac" || all[0].Status != scaleway.StatusReady {
		t.Errorf("a refused call left %+v", all)
	}
}

func productsOf(zone, kind string) string {
	return "/product-catalog/v2alpha1/public-catalog/products?page=1&product_types=" + kind + "&zone=" + zone
}

func TestWishesThatMakeNoSense(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	const zonal = "/apple-silicon/v1alpha1/zones/fr-par-1"
	networks := zonal + "/server-private-networks"
	tests := map[string]struct {
		method, path, body string
		status             int
		named              string
	}{
		"a server's wrong identifier":  {"GET", networks + "?server_id=mac", "", 400, "server_id"},
		"an address's":                 {"GET", networks + "?ipam_ip_ids=" + nobody + "&ipam_ip_ids=x", "", 400, "ipam_ip_ids"},
		"an order":                     {"GET", networks + "?order_by=name_asc", "", 400, "order_by"},
		"page zero":                    {"GET", networks + "?page=0", "", 400, "page"},
		"all filters":                  {"GET", networks + "?order_by=updated_at_desc&page=1&page_size=100&project_id=" + nobody + "&private_network_id=" + nobody + "&organization_id=" + nobody, "", 200, `"server_private_networks":[]`},
		"a network that is not there":  {"GET", zonal + "/servers/" + s.ID + "/private-networks/" + nobody, "", 404, "server_private_network"},
		"one of a server that is not":  {"GET", zonal + "/servers/" + nobody + "/private-networks/" + nobody, "", 403, "permissions_denied"},
		"one to detach":                {"DELETE", zonal + "/servers/" + s.ID + "/private-networks/x", "", 400, "private_network_id"},
		"runners":                      {"GET", zonal + "/runners?server_id=" + s.ID + "&page=1", "", 200, `"runners":[]`},
		"a runner that is not there":   {"GET", zonal + "/runners/" + nobody, "", 403, "permissions_denied"},
		"products of no place":         {"GET", "/product-catalog/v2alpha1/public-catalog/products?product_types=apple_silicon", "", 400, "precisely one"},
		"products of an unknown place": {"GET", productsOf("fr-par-9", "apple_silicon"), "", 400, "zone"},
		"products not on sale":         {"GET", productsOf("fr-par-1", "apple_silicon") + "&status=retired", "", 200, `"products":[]`},
		"products of a type":           {"GET", productsOf("fr-par-1", "apple_silicon") + "&api_ids=M2-L&status=general_availability", "", 200, `"total_count":2`},
		"an array for a server":        {"POST", zonal + "/servers", `[]`, 400, "body"},
		"a number for a name":          {"POST", zonal + "/servers", `{"name":5}`, 400, "name"},
		"more after the body":          {"POST", zonal + "/servers", `{"name":"x"} {}`, 400, "body"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response, body := w.raw(test.method, test.path, scaleway.DefaultSecretKey, test.body)
			if response.StatusCode != test.status || !strings.Contains(body, test.named) {
				t.Errorf("%s, want %d that names %s: %s", response.Status, test.status, test.named, body)
			}
		})
	}
}

// Kernel extensions are a wish of an installation.
func TestKernelExtensions(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "mac", Type: "M2-L", EnableKext: true})
	must(t, err)
	w.clock.Step(127 * time.Second)
	if s = w.expect(s.ID, applesilicon.ServerStatusReady); !s.KextEnabled {
		t.Error("enable_kext of the order was dropped")
	}
	must(t, w.reinstall(s.ID))
	w.clock.Step(17 * time.Minute)
	if s = w.expect(s.ID, applesilicon.ServerStatusReady); s.KextEnabled {
		t.Error("a reinstall without enable_kext kept it")
	}
}

// Recorded: updated_at moves about every 10 s while the vendor works on a server,
// never back, and stands still afterwards.
func TestUpdatedAtMovesWhileAtWork(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.ready("mac")
	works := map[string]func() error{
		"rebooting": func() error { return w.reboot(s.ID) },
		"vpc_updating": func() error {
			_, err := w.macs.UpdateServer(&applesilicon.UpdateServerRequest{ServerID: s.ID, EnableVpc: scw.BoolPtr(true)})
			return err
		},
	}
	for name, begin := range works {
		t.Run(name, func(t *testing.T) {
			must(t, begin())
			begun := *w.get(s.ID).UpdatedAt
			w.clock.Step(9 * time.Second)
			if got := *w.get(s.ID).UpdatedAt; !got.Equal(begun) {
				t.Errorf("moved after 9 s, by %v", got.Sub(begun))
			}
			w.clock.Step(4 * time.Second)
			if got := w.get(s.ID).UpdatedAt.Sub(begun); got != 10*time.Second {
				t.Errorf("moved by %v in 13 s, want 10 s", got)
			}
			must(t, w.rename(s.ID, "renamed"))
			w.clock.Step(time.Second)
			if got := w.get(s.ID).UpdatedAt.Sub(begun); got != 13*time.Second {
				t.Errorf("moved by %v, want the 13 s of a change of the name", got)
			}
			w.clock.Step(5 * time.Minute)
			ended := *w.get(s.ID).UpdatedAt
			w.clock.Step(time.Minute)
			if got := *w.get(s.ID).UpdatedAt; !got.Equal(ended) {
				t.Errorf("moved by %v at rest", got.Sub(ended))
			}
		})
	}
}

// The lists that are always empty need the same rights as any other.
func TestRightsToEmptyLists(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	const zonal = "/apple-silicon/v1alpha1/zones/fr-par-1"
	for rights, want := range map[scaleway.Rights]int{
		scaleway.FullRights: 200, scaleway.ReadOnly: 200, scaleway.EmptyLists: 200, scaleway.NoRights: 403,
	} {
		w.SetRights(scaleway.DefaultSecretKey, rights)
		for _, path := range []string{zonal + "/server-private-networks", zonal + "/runners"} {
			if response, body := w.raw("GET", path, scaleway.DefaultSecretKey, ""); response.StatusCode != want {
				t.Errorf("%q: %s answers %s: %s", rights, path, response.Status, body)
			}
		}
	}
	if response, _ := w.raw("GET", zonal+"/server-private-networks", nobody, ""); response.StatusCode != 401 {
		t.Errorf("a stranger gets %s", response.Status)
	}
}
