package scaleway

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

const (
	zonesPath    = "/apple-silicon/v1alpha1/zones/{zone}"
	iamPath      = "/iam/v1alpha1"
	productsPath = "/product-catalog/v2alpha1/public-catalog/products"
	// pages are the parameters of every list in pages.
	pages = "page page_size "
)

// route is one call that is served.
type route struct {
	method, path, name string
	// query names the parameters that are modelled, apart by spaces.
	query  string
	handle handler
}

// modelled refuses parameters that are not: a list that left out a filter in
// silence would show what was not asked for.
func (r route) modelled() handler {
	known := strings.Fields(r.query)
	return func(c *call) reply {
		for _, name := range slices.Sorted(maps.Keys(c.query)) {
			if !slices.Contains(known, name) {
				return notServed("the query parameter " + name + " of " + r.name)
			}
		}
		return r.handle(c)
	}
}

func (a *serverAPI) serverRoutes() []route {
	const one = zonesPath + "/servers/{id}"
	return []route{
		{"GET", zonesPath + "/servers", "ListServers", pages + "order_by project_id organization_id", a.listServers},
		{"POST", zonesPath + "/servers", "CreateServer", "", a.createServer},
		{"GET", one, "GetServer", "", a.withServer("read", a.getServer)},
		{"PATCH", one, "UpdateServer", "", a.withServer("write", a.updateServer)},
		{"DELETE", one, "DeleteServer", "", a.withServer("delete", a.deleteServer)},
		{"POST", one + "/reboot", "RebootServer", "", a.withServer("write", a.rebootServer)},
		{"POST", one + "/reinstall", "ReinstallServer", "", a.withServer("write", a.reinstallServer)},
		{
			"GET", zonesPath + "/server-private-networks", "ListServerPrivateNetworks",
			pages + "order_by server_id private_network_id organization_id project_id ipam_ip_ids", a.listPrivateNetworks,
		},
		{"PUT", one + "/private-networks", "SetServerPrivateNetworks", "", a.withServer("write", a.setPrivateNetworks)},
		{"GET", one + "/private-networks/{network}", "GetServerPrivateNetwork", "", a.withServer("read", a.noPrivateNetwork)},
		{"DELETE", one + "/private-networks/{network}", "DeleteServerPrivateNetwork", "", a.withServer("delete", a.noPrivateNetwork)},
		{"GET", zonesPath + "/runners", "ListRunners", pages + "server_id project_id organization_id", a.listRunners},
		{"GET", zonesPath + "/runners/{id}", "GetRunner", "", a.noRunner("read")},
		{"DELETE", zonesPath + "/runners/{id}", "DeleteRunner", "", a.noRunner("delete")},
	}
}

func (e *examinations) routes() []route {
	return []route{
		{"POST", zonesPath + "/connectivity-diagnostics", "StartConnectivityDiagnostic", "", e.startDiagnostic},
		{"GET", zonesPath + "/connectivity-diagnostics/{id}", "GetConnectivityDiagnostic", "", e.getDiagnostic},
	}
}

func (s *shop) catalogueRoutes() []route {
	return []route{
		{"GET", "/metadata", "GetMetadata", "", s.metadata},
		{"GET", zonesPath + "/server-types", "ListServerTypes", "", s.listServerTypes},
		{"GET", zonesPath + "/server-type/{id}", "GetServerType", "", s.getServerType},
		{"GET", zonesPath + "/os", "ListOS", pages + "server_type name", s.listOS},
		{"GET", zonesPath + "/os/{id}", "GetOS", "", s.getOS},
		{
			"GET", productsPath, "ListPublicCatalogProducts",
			pages + "product_types global region zone datacenter status api_ids", s.listProducts,
		},
	}
}

func (r *keyring) keyRoutes() []route {
	const one = iamPath + "/ssh-keys/{id}"
	return []route{
		{
			"GET", iamPath + "/ssh-keys", "ListSSHKeys",
			pages + "order_by organization_id name project_id disabled", r.listSSHKeys,
		},
		{"POST", iamPath + "/ssh-keys", "CreateSSHKey", "", r.createSSHKey},
		{"GET", one, "GetSSHKey", "", r.withKey(r.getSSHKey)},
		{"PATCH", one, "UpdateSSHKey", "", r.withKey(r.updateSSHKey)},
		{"DELETE", one, "DeleteSSHKey", "", r.withKey(r.deleteSSHKey)},
	}
}

// decode reads the body into target, or gives the answer to a malformed one (INF).
// A field that target does not have, at any depth, is one that is not modelled.
func (c *call) decode(target any) (reply, bool) {
	if len(c.body) == 0 {
		return reply{}, true
	}
	if err := json.Unmarshal(c.body, target); err != nil {
		return malformed(err), false
	}
	strict := json.NewDecoder(bytes.NewReader(c.body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(target); err != nil { // nothing else is wrong with it
		return notServed(c.name + " with an " + strings.TrimPrefix(err.Error(), "json: ")), false
	}
	return reply{}, true
}

func malformed(err error) reply {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field != "" {
		return invalidArgument(kind.Field, "format", "value must not be a JSON "+kind.Value)
	}
	return invalidArgument("body", "format", "body must be a JSON object")
}
