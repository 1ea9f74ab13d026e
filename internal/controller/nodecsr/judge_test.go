package nodecsr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/workload"
)

// request is what a test changes about a request that would be approved.
type request struct {
	subject  pkix.Name
	dns      []string
	ips      []net.IP
	usages   []certificatesv1.KeyUsage
	username string
	groups   []string
	signer   string
}

func first() request {
	return request{
		subject:  pkix.Name{CommonName: "system:node:mac-1", Organization: []string{"system:nodes"}},
		usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		username: "system:bootstrap:abcdef",
		groups:   []string{workload.JoinGroup, "system:authenticated"},
		signer:   certificatesv1.KubeAPIServerClientKubeletSignerName,
	}
}

func renewal() request {
	r := first()
	r.username, r.groups = "system:node:mac-1", []string{"system:nodes", "system:authenticated"}
	return r
}

func (r request) csr(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: r.subject, DNSNames: r.dns, IPAddresses: r.ips}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: r.signer, Usages: r.usages, Username: r.username, Groups: r.groups,
		},
	}
}

// cases are the requests that reach the controller, and what it must do.
func cases() map[string]struct {
	request  request
	machines []Machine
	approved bool
} {
	type c = struct {
		request  request
		machines []Machine
		approved bool
	}
	live := []Machine{{Name: "mac-1", TokenID: "abcdef", Provisioned: true}, {Name: "mac-2", TokenID: "fedcba", Provisioned: true}}
	twins := []Machine{{Name: "mac-1", TokenID: "abcdef", Provisioned: true}, {Name: "mac-1", TokenID: "fedcba", Provisioned: true}}
	change := func(base request, edit func(*request)) request {
		edit(&base)
		return base
	}
	return map[string]c{
		"first certificate":      {first(), live, true},
		"renewal":                {renewal(), live, true},
		"renewal, token is gone": {renewal(), []Machine{{Name: "mac-1", Provisioned: true}}, true},
		"first of two namesakes": {first(), twins, true},
		"not provisioned yet":    {first(), []Machine{{Name: "mac-1", TokenID: "abcdef"}}, true},
		"with key encipherment": {change(first(), func(r *request) {
			r.usages = append(r.usages, certificatesv1.UsageKeyEncipherment)
		}), live, true},
		"foreign common name":             {change(first(), func(r *request) { r.subject.CommonName = "system:node:mac-2" }), live, false},
		"common name of a person":         {change(first(), func(r *request) { r.subject.CommonName = "kubernetes-admin" }), live, false},
		"empty node name":                 {change(first(), func(r *request) { r.subject.CommonName = "system:node:" }), live, false},
		"other organisation":              {change(first(), func(r *request) { r.subject.Organization = []string{"system:masters"} }), live, false},
		"two organisations":               {change(first(), func(r *request) { r.subject.Organization = []string{"system:nodes", "system:masters"} }), live, false},
		"more subject":                    {change(first(), func(r *request) { r.subject.OrganizationalUnit = []string{"x"} }), live, false},
		"DNS name":                        {change(first(), func(r *request) { r.dns = []string{"mac-1"} }), live, false},
		"IP address":                      {change(first(), func(r *request) { r.ips = []net.IP{net.IPv4(127, 0, 0, 1)} }), live, false},
		"server usage":                    {change(first(), func(r *request) { r.usages[1] = certificatesv1.UsageServerAuth }), live, false},
		"extra usage":                     {change(first(), func(r *request) { r.usages = append(r.usages, certificatesv1.UsageServerAuth) }), live, false},
		"wrong group":                     {change(first(), func(r *request) { r.groups = []string{"system:bootstrappers"} }), live, false},
		"other token":                     {change(first(), func(r *request) { r.username = "system:bootstrap:zzzzzz" }), live, false},
		"token of another Machine":        {change(first(), func(r *request) { r.username = "system:bootstrap:fedcba" }), live, false},
		"no Machine":                      {first(), nil, false},
		"Machine without a token":         {first(), []Machine{{Name: "mac-1"}}, false},
		"renewal for another node":        {change(renewal(), func(r *request) { r.username = "system:node:mac-2" }), live, false},
		"renewal without the nodes group": {change(renewal(), func(r *request) { r.groups = nil }), live, false},
		"renewal of no Machine":           {renewal(), nil, false},
		"renewal of one of two namesakes": {renewal(), twins, false},
		"renewal before a first Mac":      {renewal(), []Machine{{Name: "mac-1", TokenID: "abcdef"}}, false},
		"other signer":                    {change(first(), func(r *request) { r.signer = certificatesv1.KubeletServingSignerName }), live, false},
		"somebody else":                   {change(first(), func(r *request) { r.username = "system:serviceaccount:a:b" }), live, false},
		"empty token id":                  {change(first(), func(r *request) { r.username = "system:bootstrap:" }), []Machine{{Name: "mac-1"}}, false},
	}
}

func TestDecision(t *testing.T) {
	for name, c := range cases() {
		t.Run(name, func(t *testing.T) {
			ask, err := Read(c.request.csr(t))
			if got := err == nil && Approves(ask, c.machines); got != c.approved {
				t.Errorf("approved = %t, want %t (%v)", got, c.approved, err)
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
			if ask, err := Read(bad); err == nil {
				t.Errorf("read as %+v", ask)
			}
		})
	}
}
