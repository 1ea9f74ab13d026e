package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubemark"
)

// secure has a hollow kubelet serve as kubeadm's do, and as a Mac's agent does: with a certificate that the cluster signs,
// to whom the cluster's authority or the API server knows, and who may do it by the API server's word.
func secure(ctx context.Context, hollow *kubemark.HollowKubelet, config *rest.Config, client *kubernetes.Clientset) error {
	flags, settings := hollow.KubeletFlags, hollow.KubeletConfiguration
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	authority := filepath.Join(flags.RootDirectory, "client-ca.crt")
	if err := os.WriteFile(authority, config.CAData, 0o600); err != nil {
		return fmt.Errorf("writing the cluster's authority down: %w", err)
	}
	flags.CertDirectory = filepath.Join(flags.RootDirectory, "pki")
	settings.ServerTLSBootstrap = true
	settings.Authentication.X509.ClientCAFile = authority
	settings.Authentication.Anonymous.Enabled = false
	settings.Authentication.Webhook.Enabled = true
	settings.Authorization.Mode = kubeletconfig.KubeletAuthorizationModeWebhook
	var err error
	if hollow.KubeletDeps.TLSOptions, err = kubeletapp.InitializeTLS(ctx, flags, settings); err != nil {
		return fmt.Errorf("preparing TLS: %w", err)
	}
	auth, reload, err := kubeletapp.BuildAuth(types.NodeName(flags.HostnameOverride), client, *settings)
	if err != nil {
		return fmt.Errorf("preparing authentication: %w", err)
	}
	reload(ctx.Done())
	hollow.KubeletDeps.Auth = auth
	return nil
}
