package nodecsr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// request is what a test changes about a request that would be approved.
type request struct {
	subject  pkix.Name
	dns      []string
	uris     []*url.URL
	emails   []string
	ips      []net.IP
	usages   []certificatesv1.KeyUsage
	username string
	groups   []string
	signer   string
	seconds  *int32
}

func first() request {
	return request{
		subject:  pkix.Name{CommonName: "system:node:mac-1", Organization: []string{"system:nodes"}},
		usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		username: "system:bootstrap:abcdef",
		groups:   []string{workload.JoinGroup, "system:authenticated"},
		signer:   certificatesv1.KubeAPIServerClientKubeletSignerName,
		seconds:  ptr.To[int32](86400),
	}
}

func renewal() request {
	r := first()
	r.username, r.groups = "system:node:mac-1", []string{"system:nodes", "system:authenticated"}
	return r
}

// address is the vendor's of mac-1.
const address = "192.0.2.7"

func serving() request {
	r := renewal()
	r.signer = certificatesv1.KubeletServingSignerName
	r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	r.dns, r.ips = []string{"mac-1"}, []net.IP{net.ParseIP(address)}
	return r
}

func (r request) csr(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: r.subject, DNSNames: r.dns, IPAddresses: r.ips, URIs: r.uris, EmailAddresses: r.emails}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: r.signer, Usages: r.usages, Username: r.username, Groups: r.groups,
			ExpirationSeconds: r.seconds,
		},
	}
}

const (
	zone  = "fr-par-1"
	mac1  = "11111111-1111-4111-8111-111111111111"
	mac2  = "22222222-2222-4222-8222-222222222222"
	token = "abcdef"
)

// claimed is a host with the claim of Machine fleet/<name>, whose Mac may join with a token.
func claimed(id, name, token string, changes ...func(*host.Host)) host.Host {
	h := host.Host{ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, id)}}
	h.Spec.Zone, h.Spec.ServerID = zone, id
	h.Spec.ClaimRef = &infrav1.ClaimReference{Cluster: "macs", Namespace: "fleet", Name: name, Token: "claim-" + id}
	h.Spec.Record.Bootstrap.TokenID = token
	h.Status.Server.IP = address
	for _, change := range changes {
		change(&h)
	}
	return h
}

// machineOf is the Machine of a host's claim.
func machineOf(h host.Host, changes ...func(*infrav1.ScalewayAppleSiliconMachine)) *infrav1.ScalewayAppleSiliconMachine {
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: h.Spec.ClaimRef.Namespace, Name: h.Spec.ClaimRef.Name}}
	m.Spec.HostRef = &infrav1.HostReference{Name: h.Name, ClaimToken: h.Spec.ClaimRef.Token}
	for _, change := range changes {
		change(m)
	}
	return m
}

func nodeOf(id string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, id)}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func change(base request, edit func(*request)) request {
	edit(&base)
	return base
}

// TestRead: what the request itself shows. The rest is as for a request that is approved.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		request request
		reads   bool
	}{
		"first certificate":                 {first(), true},
		"renewal":                           {renewal(), true},
		"with key encipherment":             {change(first(), func(r *request) { r.usages = append(r.usages, certificatesv1.UsageKeyEncipherment) }), true},
		"common name of a person":           {change(first(), func(r *request) { r.subject.CommonName = "kubernetes-admin" }), false},
		"empty node name":                   {change(first(), func(r *request) { r.subject.CommonName = "system:node:" }), false},
		"other organisation":                {change(first(), func(r *request) { r.subject.Organization = []string{"system:masters"} }), false},
		"two organisations":                 {change(first(), func(r *request) { r.subject.Organization = []string{"system:nodes", "system:masters"} }), false},
		"more subject":                      {change(first(), func(r *request) { r.subject.OrganizationalUnit = []string{"x"} }), false},
		"URI":                               {change(first(), func(r *request) { r.uris = []*url.URL{{Scheme: "spiffe", Host: "mac-1"}} }), false},
		"e-mail address":                    {change(first(), func(r *request) { r.emails = []string{"root@mac-1"} }), false},
		"DNS name":                          {change(first(), func(r *request) { r.dns = []string{"mac-1"} }), false},
		"IP address":                        {change(first(), func(r *request) { r.ips = []net.IP{net.IPv4(127, 0, 0, 1)} }), false},
		"server usage":                      {change(first(), func(r *request) { r.usages[1] = certificatesv1.UsageServerAuth }), false},
		"extra usage":                       {change(first(), func(r *request) { r.usages = append(r.usages, certificatesv1.UsageServerAuth) }), false},
		"wrong group":                       {change(first(), func(r *request) { r.groups = []string{"system:bootstrappers"} }), false},
		"renewal for another node":          {change(renewal(), func(r *request) { r.username = "system:node:mac-2" }), false},
		"renewal without the nodes group":   {change(renewal(), func(r *request) { r.groups = nil }), false},
		"other signer":                      {change(first(), func(r *request) { r.signer = certificatesv1.KubeAPIServerClientSignerName }), false},
		"client's request, serving signer":  {change(renewal(), func(r *request) { r.signer = certificatesv1.KubeletServingSignerName }), false},
		"somebody else":                     {change(first(), func(r *request) { r.username = "system:serviceaccount:a:b" }), false},
		"empty token id":                    {change(first(), func(r *request) { r.username = "system:bootstrap:" }), false},
		"serving":                           {serving(), true},
		"serving, a name alone":             {change(serving(), func(r *request) { r.ips = nil }), true},
		"serving, an address alone":         {change(serving(), func(r *request) { r.dns = nil }), true},
		"serving with key encipherment":     {change(serving(), func(r *request) { r.usages = append(r.usages, certificatesv1.UsageKeyEncipherment) }), true},
		"serving, neither name nor address": {change(serving(), func(r *request) { r.dns, r.ips = nil, nil }), false},
		"serving, client signer":            {change(serving(), func(r *request) { r.signer = certificatesv1.KubeAPIServerClientKubeletSignerName }), false},
		"serving and client":                {change(serving(), func(r *request) { r.usages = append(r.usages, certificatesv1.UsageClientAuth) }), false},
		"serving without signature":         {change(serving(), func(r *request) { r.usages = r.usages[1:] }), false},
		"serving asked with a token":        {change(serving(), func(r *request) { r.username, r.groups = first().username, first().groups }), false},
		"serving for another node":          {change(serving(), func(r *request) { r.username = "system:node:mac-2" }), false},
		"serving without the nodes group":   {change(serving(), func(r *request) { r.groups = []string{"system:authenticated"} }), false},
		"serving, other common name":        {change(serving(), func(r *request) { r.subject.CommonName = "mac-1" }), false},
		"serving, other organisation":       {change(serving(), func(r *request) { r.subject.Organization = []string{"system:masters"} }), false},
		"serving, no organisation":          {change(serving(), func(r *request) { r.subject.Organization = nil }), false},
		"serving, e-mail address":           {change(serving(), func(r *request) { r.emails = []string{"root@mac-1"} }), false},
		"serving, URI":                      {change(serving(), func(r *request) { r.uris = []*url.URL{{Scheme: "spiffe", Host: "mac-1"}} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := read(c.request.csr(t)); (err == nil) != c.reads {
				t.Errorf("reads = %t (%v), want %t", err == nil, err, c.reads)
			}
		})
	}
}

// decision is a request with what is read from the API server for it.
type decision struct {
	request request
	hosts   []host.Host
	machine *infrav1.ScalewayAppleSiliconMachine
	node    *corev1.Node
	// about is the host that the request is about; empty: none.
	about string
	// says is in the refusal; empty: it is approved.
	says string
}

func decisions() map[string]decision {
	own := claimed(mac1, "mac-1", token)
	name := own.Name
	now := metav1.Now()
	at := metav1.NewMicroTime(now.Time)
	released := claimed(mac1, "mac-1", token, func(h *host.Host) { h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token} })
	moved := claimed(mac1, "mac-1", token, func(h *host.Host) { h.Spec.Record.HandedOverAt = &at })
	detached := claimed(mac1, "mac-1", token, func(h *host.Host) { h.Spec.ClaimRef = nil })
	leaving := machineOf(own, func(m *infrav1.ScalewayAppleSiliconMachine) { m.DeletionTimestamp = &now })
	copied := machineOf(own, func(m *infrav1.ScalewayAppleSiliconMachine) { m.Namespace = "elsewhere" })
	otherClaim := machineOf(own, func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.ClaimToken = "another" })
	otherHost := machineOf(own, func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.Name = "another" })
	twin := claimed(mac2, "mac-1", "fedcba", func(h *host.Host) { h.Spec.ClaimRef.Namespace = "elsewhere" })
	neighbour := claimed(mac2, "mac-2", "fedcba")
	controlPlane := nodeOf(mac1, func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} })
	unnamed := nodeOf(mac1, func(n *corev1.Node) { n.Spec.ProviderID = "" })
	foreign := change(first(), func(r *request) { r.subject.CommonName = "system:node:mac-2" })
	year := func(r *request) { r.seconds = ptr.To[int32](365 * 24 * 60 * 60) }
	unsaid := func(r *request) { r.seconds = nil }
	hosts := []host.Host{neighbour, own}
	return map[string]decision{
		"first certificate":                {first(), hosts, machineOf(own), nil, name, ""},
		"a Mac that joins again":           {first(), hosts, machineOf(own), nodeOf(mac1), name, ""},
		"first of two namesakes":           {first(), []host.Host{twin, own}, machineOf(own), nil, name, ""},
		"ten minutes":                      {change(first(), func(r *request) { r.seconds = ptr.To[int32](600) }), hosts, machineOf(own), nil, name, ""},
		"renewal":                          {renewal(), hosts, machineOf(own), nodeOf(mac1), name, ""},
		"renewal of one of two namesakes":  {renewal(), []host.Host{twin, own}, machineOf(own), nodeOf(mac1), name, ""},
		"renewal of the other namesake":    {renewal(), []host.Host{own, twin}, machineOf(twin), nodeOf(mac2), twin.Name, ""},
		"renewal, handed over":             {renewal(), []host.Host{moved}, nil, nodeOf(mac1), name, ""},
		"no Host bears the token":          {first(), []host.Host{claimed(mac1, "mac-1", "")}, nil, nil, "", ""},
		"token of another Machine":         {foreign, hosts, machineOf(own), nil, name, "the token was made for Machine fleet/mac-1"},
		"first, handed over":               {first(), []host.Host{moved}, nil, nil, name, "handed over"},
		"claim is over":                    {first(), []host.Host{detached}, nil, nil, name, "no Machine any more"},
		"host is released":                 {first(), []host.Host{released}, machineOf(own), nil, name, "is released"},
		"Machine is gone":                  {first(), hosts, nil, nil, name, "does not exist"},
		"Machine is leaving":               {first(), hosts, leaving, nil, name, "is being deleted"},
		"a copy in another namespace":      {first(), hosts, copied, nil, name, "does not hold the claim"},
		"Machine has another claim":        {first(), hosts, otherClaim, nil, name, "does not hold the claim"},
		"Machine means another host":       {first(), hosts, otherHost, nil, name, "does not hold the claim"},
		"a year":                           {change(first(), year), hosts, machineOf(own), nil, name, "86400 seconds at most"},
		"a second too long":                {change(first(), func(r *request) { r.seconds = ptr.To[int32](86401) }), hosts, machineOf(own), nil, name, "86400 seconds at most"},
		"no end":                           {change(first(), unsaid), hosts, machineOf(own), nil, name, "expirationSeconds is not set"},
		"another machine's Node":           {first(), hosts, machineOf(own), nodeOf(mac2), name, "and this Mac is"},
		"a Node without a providerID":      {first(), hosts, machineOf(own), unnamed, name, "has no providerID"},
		"a control plane's Node":           {first(), hosts, machineOf(own), controlPlane, name, "control plane"},
		"renewal of a stray":               {renewal(), nil, nil, nodeOf(mac1), "", ""},
		"renewal after the release":        {renewal(), []host.Host{released}, machineOf(own), nodeOf(mac1), name, "is released"},
		"renewal while leaving":            {renewal(), hosts, leaving, nodeOf(mac1), name, "is being deleted"},
		"renewal without a Node":           {renewal(), hosts, machineOf(own), nil, name, "does not exist"},
		"renewal of another machine":       {renewal(), hosts, machineOf(own), nodeOf(mac2), name, "and this Mac is"},
		"renewal for a year":               {change(renewal(), year), hosts, machineOf(own), nodeOf(mac1), name, "86400 seconds at most"},
		"renewal without an end":           {change(renewal(), unsaid), hosts, machineOf(own), nodeOf(mac1), name, "expirationSeconds is not set"},
		"renewal of nobody knows which":    {renewal(), []host.Host{twin, own}, nil, unnamed, "", ""},
		"renewal of a linux node":          {renewal(), []host.Host{neighbour}, nil, unnamed, "", ""},
		"renewal, handed over, other Node": {renewal(), []host.Host{moved}, nil, nodeOf(mac2), name, "and this Mac is"},
	}
}

// servingDecisions are about what only serving certificates are judged by; whose the
// request is, is judged as for a renewal.
func servingDecisions() map[string]decision {
	own := claimed(mac1, "mac-1", token)
	name := own.Name
	released := claimed(mac1, "mac-1", token, func(h *host.Host) { h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token} })
	unseen := claimed(mac1, "mac-1", token, func(h *host.Host) { h.Status.Server.IP = "" })
	twin := claimed(mac2, "mac-1", "fedcba", func(h *host.Host) { h.Spec.ClaimRef.Namespace = "elsewhere" })
	unnamed := nodeOf(mac1, func(n *corev1.Node) { n.Spec.ProviderID = "" })
	// What a Node says of itself opens nothing.
	boasting := nodeOf(mac1, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeInternalDNS, Address: "kubernetes.default"}}
	})
	with := func(dns []string, ips ...string) request {
		return change(serving(), func(r *request) {
			r.dns, r.ips = dns, nil
			for _, ip := range ips {
				r.ips = append(r.ips, net.ParseIP(ip))
			}
		})
	}
	hosts := []host.Host{own}
	return map[string]decision{
		"name and address":          {serving(), hosts, machineOf(own), nodeOf(mac1), name, ""},
		"a name alone":              {with([]string{"mac-1"}), []host.Host{unseen}, machineOf(own), nodeOf(mac1), name, ""},
		"an address alone":          {with(nil, address), hosts, machineOf(own), nodeOf(mac1), name, ""},
		"one of two namesakes":      {serving(), []host.Host{twin, own}, machineOf(own), nodeOf(mac1), name, ""},
		"a further address":         {with([]string{"mac-1"}, address, "10.0.0.1"), hosts, machineOf(own), boasting, name, "it names 10.0.0.1"},
		"another address":           {with(nil, "10.0.0.1"), hosts, machineOf(own), boasting, name, "the vendor shows 192.0.2.7"},
		"another name":              {with([]string{"mac-1", "kubernetes.default"}, address), hosts, machineOf(own), boasting, name, "kubernetes.default"},
		"a wildcard":                {with([]string{"*"}, address), hosts, machineOf(own), nodeOf(mac1), name, "it names"},
		"address is not known":      {serving(), []host.Host{unseen}, machineOf(own), nodeOf(mac1), name, "shows no address"},
		"before its Node":           {serving(), hosts, machineOf(own), nil, name, "does not exist yet"},
		"two namesakes, no Node":    {serving(), []host.Host{twin, own}, nil, nil, "", ""},
		"another machine's Node":    {serving(), hosts, machineOf(own), nodeOf(mac2), name, "and this Mac is"},
		"Node without a providerID": {serving(), hosts, machineOf(own), unnamed, name, "has no providerID"},
		"host is released":          {serving(), []host.Host{released}, machineOf(own), nodeOf(mac1), name, "is released"},
		"Machine is gone":           {serving(), hosts, nil, nodeOf(mac1), name, "does not exist"},
		"no claim of the Machine's": {serving(), hosts, machineOf(own, func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil }), nodeOf(mac1), name, "does not hold the claim"},
		"a second too long":         {change(serving(), func(r *request) { r.seconds = ptr.To[int32](86401) }), hosts, machineOf(own), nodeOf(mac1), name, "86400 seconds at most"},
		"no end":                    {change(serving(), func(r *request) { r.seconds = nil }), hosts, machineOf(own), nodeOf(mac1), name, "expirationSeconds is not set"},
		"a linux node":              {serving(), nil, nil, nodeOf(mac1), "", ""},
	}
}

func TestDecision(t *testing.T) { decide(t, decisions()) }

func TestServingDecision(t *testing.T) { decide(t, servingDecisions()) }

func decide(t *testing.T, all map[string]decision) {
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			ask, err := read(c.request.csr(t))
			if err != nil {
				t.Fatal(err)
			}
			h := find(ask, c.node, c.hosts)
			if h == nil || c.about == "" {
				if h != nil || c.about != "" {
					t.Errorf("it is about %v, want %q", h, c.about)
				}
				return
			}
			if h.Name != c.about {
				t.Errorf("it is about %s, want %s", h.Name, c.about)
			}
			why := refusal(ask, h, c.machine, c.node).Why
			if (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
				t.Errorf("refusal %q, want %q", why, c.says)
			}
		})
	}
}

func TestGarbageIsLeftAlone(t *testing.T) {
	csr := first().csr(t)
	for name, text := range map[string]string{
		"empty": "", "no PEM": "x", "other block": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
		"bad DER": "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "two": string(csr.Spec.Request) + string(csr.Spec.Request),
	} {
		t.Run(name, func(t *testing.T) {
			bad := csr.DeepCopy()
			bad.Spec.Request = []byte(text)
			if ask, err := read(bad); err == nil {
				t.Errorf("read as %+v", ask)
			}
		})
	}
}
