package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// metricsNeedATokenThatMay scrapes the manager as a stranger, as a ServiceAccount
// without rights, and as one that is bound to the chart's ClusterRole.
func (f *fleet) metricsNeedATokenThatMay() {
	f.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus", Namespace: metav1.NamespaceDefault}}
	if err := f.client.Create(f.Context(), account); err != nil {
		f.Fatal(err)
	}
	request := &authenticationv1.TokenRequest{}
	if err := f.client.SubResource("token").Create(f.Context(), account, request); err != nil {
		f.Fatal(err)
	}
	if code, body := f.scrape(""); code != http.StatusUnauthorized {
		f.Errorf("a stranger gets %d: %.80s", code, body)
	}
	if code, body := f.scrape("no-token-of-ours"); code == http.StatusOK || strings.Contains(body, "macfleet_") {
		f.Errorf("a made-up token gets %d: %.80s", code, body)
	}
	if code, body := f.scrape(request.Status.Token); code != http.StatusForbidden {
		f.Errorf("a token without rights gets %d: %.80s", code, body)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "macfleet-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
	}
	if err := f.client.Create(f.Context(), binding); err != nil {
		f.Fatal(err)
	}
	// A refusal is remembered for half a minute.
	f.await("the metrics to be had", func() (string, bool) {
		code, body := f.scrape(request.Status.Token)
		return body, code == http.StatusOK && strings.Contains(body, "macfleet_hosts{")
	})
}

// scrape asks for the metrics; the certificate is the manager's own.
func (f *fleet) scrape(token string) (code int, body string) {
	f.Helper()
	request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, f.world.MetricsURL(), nil)
	if err != nil {
		f.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // made by the manager for itself
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		f.Fatalf("scraping: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.Fatal(err)
	}
	return response.StatusCode, string(text)
}
