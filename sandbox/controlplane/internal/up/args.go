package up

import "k8s.io/apiserver/pkg/authentication/user"

// The ranges are kubeadm's and kind's usual ones. Pods on Macs do not take addresses from them; Kubernetes wants them
// all the same.
const (
	serviceRange = "10.96.0.0/16"
	podRange     = "10.244.0.0/16"
)

// What the controller manager and the scheduler may ask of the API server beside them, a second and at once. There is
// nobody here whom they could starve.
const (
	clientQPS   = "500"
	clientBurst = "1000"
)

func (p *plane) writeKubeconfigs() error {
	for _, k := range []struct {
		path, user string
		groups     []string
	}{
		{p.options.adminKubeconfig(), "kubernetes-admin", []string{user.SystemPrivilegedGroup}},
		{p.options.controllerManagerKubeconfig(), user.KubeControllerManager, nil},
		{p.options.schedulerKubeconfig(), user.KubeScheduler, nil},
	} {
		if err := p.certs.WriteKubeconfig(k.path, p.server, k.user, k.groups...); err != nil {
			return err
		}
	}
	return nil
}

func (p *plane) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + clientSocket().String(),
		"--advertise-address=127.0.0.1",
		// An endpoint on a loopback address is refused for ever by the default reconciler; nothing here needs one.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + p.certs.Path("apiserver.crt"),
		"--tls-private-key-file=" + p.certs.Path("apiserver.key"),
		"--client-ca-file=" + p.certs.Path("ca.crt"),
		"--kubelet-client-certificate=" + p.certs.Path("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + p.certs.Path("apiserver-kubelet-client.key"),
		// By whom kubelets' serving certificates are signed: the controller manager does it with this authority.
		"--kubelet-certificate-authority=" + p.certs.Path("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--requestheader-client-ca-file=" + p.certs.Path("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.certs.Path("front-proxy-client.crt"),
		"--proxy-client-key-file=" + p.certs.Path("front-proxy-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.certs.Path("sa.pub"),
		"--service-account-signing-key-file=" + p.certs.Path("sa.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true",
		"--anonymous-auth=true", // cluster-info is read by those who have no identity yet
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		"--profiling=false",
	}
	if p.options.AuditLog != "" {
		args = append(args, "--audit-log-path="+p.options.AuditLog, "--audit-policy-file="+p.auditPolicy())
	}
	return append(args, p.options.APIServerArgs...)
}

func (p *plane) controllerManagerArgs() []string {
	return append([]string{
		"--kubeconfig=" + p.options.controllerManagerKubeconfig(),
		"--bind-address=127.0.0.1",
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		"--cluster-signing-cert-file=" + p.certs.Path("ca.crt"),
		"--cluster-signing-key-file=" + p.certs.Path("ca.key"),
		"--root-ca-file=" + p.certs.Path("ca.crt"),
		"--service-account-private-key-file=" + p.certs.Path("sa.key"),
		"--allocate-node-cidrs=true",
		"--cluster-cidr=" + podRange,
		"--service-cluster-ip-range=" + serviceRange,
		// At the default 20 requests a second its controllers take some 4 s to come up, one service account each.
		"--kube-api-qps=" + clientQPS,
		"--kube-api-burst=" + clientBurst,
	}, p.options.ControllerManagerArgs...)
}

func (p *plane) schedulerArgs() []string {
	return []string{
		"--kubeconfig=" + p.options.schedulerKubeconfig(),
		"--bind-address=127.0.0.1",
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=" + clientQPS,
		"--kube-api-burst=" + clientBurst,
	}
}
