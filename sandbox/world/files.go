package world

import "slices"

// What a sandbox makes in Options.Dir.
const (
	clusterDir        = "cluster"
	logsDir           = "logs"
	macsDir           = "macs"
	managerKubeconfig = "manager.kubeconfig"
	besideKubeconfig  = "beside.kubeconfig"
	metricsServerDir  = metricsServer
	vendorMountDir    = "vendor-credentials"
)

// Owns reports that a sandbox makes a file or folder of that name in Options.Dir.
func Owns(name string) bool {
	return slices.Contains([]string{clusterDir, logsDir, macsDir, managerKubeconfig, besideKubeconfig, metricsServerDir, vendorMountDir}, name)
}
