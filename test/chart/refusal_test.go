package chart

import (
	"strings"
	"testing"
)

func TestNonsenseIsRefusedWithASentence(t *testing.T) {
	zone := "fleets.builders.zone=fr-par-1"
	for name, c := range map[string]struct {
		values []string
		says   string
	}{
		"fleet without a zone":         {[]string{"fleets.builders.replicas=1"}, "fleets.builders.zone is missing"},
		"no zone":                      {[]string{"fleets.builders.zone=Paris"}, `fleets.builders.zone "Paris" is no zone`},
		"name of a fleet":              {[]string{"fleets.My_Macs.zone=fr-par-1"}, `fleets: "My_Macs" is no name for a fleet`},
		"name of a fleet, too long":    {[]string{"fleets.a23456789-123456789-123456789-1.zone=fr-par-1"}, "up to 30 lower-case letters"},
		"point release":                {[]string{zone, "fleets.builders.os=tahoe-26.0"}, "name a family of macOS such as tahoe"},
		"version":                      {[]string{zone, "fleets.builders.os=15.2"}, `fleets.builders.os "15.2": name a family`},
		"type with a blank":            {[]string{zone, "fleets.builders.type=M2 L"}, `fleets.builders.type "M2 L" is no server type`},
		"misspelt key":                 {[]string{zone, "fleets.builders.replica=1"}, "'replica' not allowed"},
		"strategy":                     {[]string{zone, "fleets.builders.strategy=Recreate"}, "'OnDelete', 'RollingUpdate'"},
		"acquisition":                  {[]string{zone, "fleets.builders.acquisition=Buy"}, "'Adopt', 'Order'"},
		"release policy":               {[]string{zone, "fleets.builders.releasePolicy=Wipe"}, "'Recycle', 'Terminate', 'Detach'"},
		"host selector":                {[]string{zone, "fleets.builders.hostSelector.labels.a=b"}, "'labels' not allowed"},
		"label key":                    {[]string{zone, "fleets.builders.hostSelector.matchLabels.disk size=b"}, `"disk size" is no label key`},
		"label value":                  {[]string{zone, "fleets.builders.hostSelector.matchLabels.disk=256 GB"}, `"256 GB" of disk is no label value`},
		"operator":                     {expression("Is", "values[0]=a"), "'In', 'NotIn', 'Exists', 'DoesNotExist'"},
		"operator of no values":        {expression("In"), "compares with nothing"},
		"operator of too many values":  {expression("Exists", "values[0]=a"), "leave its values out"},
		"key of an expression":         {expression("Exists", "value=a"), "'value' not allowed"},
		"taint's effect":               {[]string{zone, "fleets.builders.profile.taints[0].key=a", "fleets.builders.profile.taints[0].effect=Evict"}, "'NoSchedule', 'PreferNoSchedule', 'NoExecute'"},
		"taint's key":                  {[]string{zone, "fleets.builders.profile.taints[0].key=-a", "fleets.builders.profile.taints[0].effect=NoExecute"}, `fleets.builders.profile.taints: "-a" is no label key`},
		"taint twice":                  {[]string{zone, "fleets.builders.profile.taints[0].key=a", "fleets.builders.profile.taints[0].effect=NoExecute", "fleets.builders.profile.taints[1].key=a", "fleets.builders.profile.taints[1].effect=NoExecute"}, "a:NoExecute is there twice"},
		"taint of Kubernetes":          {[]string{zone, `fleets.builders.profile.taints[0].key=node\.kubernetes\.io/a`, "fleets.builders.profile.taints[0].effect=NoExecute"}, "Kubernetes' own"},
		"label of a fact":              {[]string{zone, `fleets.builders.profile.labels.kubernetes\.io/os=linux`}, "says what each Mac is"},
		"label of Kubernetes":          {[]string{zone, `fleets.builders.profile.labels.a\.k8s\.io/b=c`}, "lets no node give itself"},
		"label that no node may have":  {[]string{zone, `fleets.builders.profile.labels.node-role\.kubernetes\.io/mac=a`}, "lets no node give itself"},
		"order of no type":             {[]string{zone, "fleets.builders.acquisition=Order"}, "fleets.builders orders servers: say in fleets.builders.type which"},
		"order of what exists":         {[]string{zone, "fleets.builders.acquisition=Order", "fleets.builders.type=M2-L", "fleets.builders.hostSelector.matchLabels.a=b"}, "leave it out"},
		"limit of no orders":           {[]string{zone, "fleets.builders.maxOrdered=3"}, "fleets.builders.maxOrdered: the fleet adopts its Macs from the pool and orders none"},
		"a size that is scaled":        {[]string{zone, "fleets.builders.type=M2-L", "fleets.builders.autoscaling.max=2", "fleets.builders.replicas=1"}, "fleets.builders.replicas: the autoscaler says how many"},
		"scaled, of any type":          {[]string{zone, "fleets.builders.autoscaling.max=2"}, "say in fleets.builders.type which type of server they are"},
		"scaled without an end":        {[]string{zone, "fleets.builders.type=M2-L", "fleets.builders.autoscaling.min=2"}, "missing property 'max'"},
		"scaled to nothing":            {[]string{zone, "fleets.builders.type=M2-L", "fleets.builders.autoscaling.max=0"}, "/fleets/builders/autoscaling/max"},
		"scaled the wrong way":         {[]string{zone, "fleets.builders.type=M2-L", "fleets.builders.autoscaling.min=3", "fleets.builders.autoscaling.max=2"}, "fleets.builders.autoscaling: max 2 is below min 3"},
		"scaled above the orders":      {[]string{zone, "fleets.builders.type=M2-L", "fleets.builders.acquisition=Order", "fleets.builders.maxOrdered=1", "fleets.builders.autoscaling.max=2"}, "fleets.builders.maxOrdered 1 is below fleets.builders.autoscaling.max 2"},
		"limit below nothing":          {[]string{zone, "fleets.builders.acquisition=Order", "fleets.builders.type=M2-L", "fleets.builders.maxOrdered=-1"}, "/fleets/builders/maxOrdered"},
		"a kubelet in SSH's place":     {[]string{zone, "fleets.builders.profile.kubeletPort=22"}, "/fleets/builders/profile/kubeletPort"},
		"three guests":                 {[]string{zone, "fleets.builders.profile.maxVMs=3"}, "/fleets/builders/profile/maxVMs"},
		"guests' subnet":               {[]string{zone, "fleets.builders.profile.network.subnet=8.8.8.0/24"}, `fleets.builders.profile.network.subnet "8.8.8.0/24": give a private`},
		"no network":                   {[]string{zone, "fleets.builders.profile.network.guestEgress.allow[0].cidr=10.0.0.1"}, `"10.0.0.1" is no network`},
		"no port":                      {[]string{zone, "fleets.builders.profile.network.guestEgress.allow[0].cidr=10.0.0.0/8", "fleets.builders.profile.network.guestEgress.allow[0].ports[0]=70000"}, "/ports/0"},
		"a port from nowhere":          {[]string{zone, "fleets.builders.profile.network.hostIngress.allow[0].cidr=office", "fleets.builders.profile.network.hostIngress.allow[0].ports[0]=9100"}, `"office" is no network`},
		"a private key":                {[]string{zone, "fleets.builders.profile.sshAccess.authorizedKeys[0]=-----BEGIN"}, "is no SSH public key"},
		"SSH from nowhere":             {[]string{zone, "fleets.builders.profile.network.sshIngress.allow[0]=office"}, `"office" is no network`},
		"tart of no hash":              {[]string{zone, "fleets.builders.profile.tart.version=2.30.0", "fleets.builders.profile.tart.source=https://a/t.tgz"}, "missing property 'sha256'"},
		"quota of nothing":             {[]string{zone, "fleets.builders.profile.storage.quota=much"}, `fleets.builders.profile.storage.quota "much"`},
		"quota for no guest":           {[]string{zone, "fleets.builders.profile.storage.quota=39G"}, `fleets.builders.profile.storage.quota "39G": write a size of 40G or more, such as 300G`},
		"quota in other units":         {[]string{zone, "fleets.builders.profile.storage.quota=37Gi"}, `quota "37Gi": write a size of 40G or more`},
		"quota in bytes":               {[]string{zone, "fleets.builders.profile.storage.quota=300"}, `quota "300": write a size of 40G or more`},
		"image of the Mac":             {[]string{zone, "fleets.builders.profile.images.prePull[0]=base"}, `fleets.builders.profile.images.prePull: "base" is no image of a registry`},
		"image twice":                  {[]string{zone, "fleets.builders.profile.images.prePull={r.test/a:v1,r.test/a:v1}"}, "an image is there twice"},
		"threshold above the other":    {[]string{zone, "fleets.builders.profile.images.gcHighPercent=80"}, "gcLowPercent 80 must be below gcHighPercent 80"},
		"threshold of nothing":         {[]string{zone, "fleets.builders.profile.images.gcHighPercent=0"}, "/images/gcHighPercent"},
		"whole disk for Pods":          {[]string{zone, "fleets.builders.profile.pods.hostPaths[0]=/"}, `fleets.builders.profile.pods.hostPaths: "/" is no path of a directory below /`},
		"the node's own for Pods":      {[]string{zone, "fleets.builders.profile.pods.hostPaths[0]=/Var/db"}, `"/Var/db" is a directory of macOS or of the node's own files`},
		"another door for Pods":        {[]string{zone, "fleets.builders.profile.pods.hostPaths[0]=/.nofollow/etc"}, `"/.nofollow/etc" is a directory of macOS or of the node's own files`},
		"a home for Pods":              {[]string{zone, "fleets.builders.profile.pods.hostPaths[0]=/Users/m1/cache"}, `"/Users/m1/cache" is in the home of a user, or holds homes: choose /Users/Shared or a directory below it`},
		"way up for Pods":              {[]string{zone, "fleets.builders.profile.pods.hostPaths[0]=/a/../b"}, "is no path of a directory below /"},
		"soak in words":                {[]string{zone, "fleets.builders.profile.rollout.soak=long"}, `fleets.builders.profile.rollout.soak "long"`},
		"nobody may be unavailable":    {[]string{zone, "fleets.builders.profile.rollout.maxUnavailable=0"}, "/rollout/maxUnavailable"},
		"pool of no namespace":         {[]string{"trust.poolPrefixes.Team={gpu-pool-}"}, `trust.poolPrefixes: "Team" is no name of a namespace`},
		"pool of a namespace":          {[]string{"trust.poolPrefixes.team={gpu-pool}"}, `trust.poolPrefixes.team: "gpu-pool" is no pool prefix`},
		"pool of claimed names":        {[]string{"trust.poolPrefixes.team={macfleet-gpu-}", "orphanReclaim.activeReclaim=true"}, `"macfleet-gpu-" starts the names of claimed servers`},
		"drift check now and then":     {[]string{"manager.driftCheckInterval=daily"}, `manager.driftCheckInterval "daily"`},
		"pool without a dash":          {[]string{"pool.prefix=pool"}, `pool.prefix "pool": end it in a dash, as in "pool-"`},
		"pool of one letter":           {[]string{"pool.prefix=p-"}, "3 to 40 lower-case letters"},
		"pool that starts our names":   {[]string{"pool.prefix=macfleet-"}, "choose another prefix"},
		"fleet that starts as a pool":  {[]string{"fleets.pool.zone=fr-par-1", "pool.prefix=macfleet-pool-"}, "name the fleet otherwise"},
		"reclaim of the pool":          {[]string{zone, "pool.prefix=macfleet-pool-", "orphanReclaim.activeReclaim=true"}, "could be taken for a stranded one"},
		"reclaim maybe":                {[]string{"orphanReclaim.activeReclaim=maybe"}, "/orphanReclaim/activeReclaim"},
		"kubeconfig of an unknown way": {[]string{"capi.remoteKubeconfig=mint"}, "'managed', 'externalSecret', 'none'"},
		"external, of no store":        {[]string{"capi.remoteKubeconfig=externalSecret"}, "capi.externalSecret.storeRef.name"},
		"name of the Cluster":          {[]string{"cluster.name=our.Macs"}, `cluster.name "our.Macs" is no name of an object`},
		"time as a number":             {[]string{"manager.reinstallTimeout=45"}, "/manager/reinstallTimeout"},
		"time in parts of a unit":      {[]string{"manager.inventoryInterval=1.5h"}, `manager.inventoryInterval "1.5h": write a time above 0 in whole hours`},
		"no time at all":               {[]string{"manager.reclaimInterval=0s"}, "a time above 0"},
		"refresh once a day":           {[]string{"capi.externalSecret.refreshInterval=1d"}, "capi.externalSecret.refreshInterval"},
		"no call to the vendor":        {[]string{"manager.vendorQPS=0"}, "manager.vendorQPS 0: the manager has to call the vendor"},
		"tart from anybody":            {[]string{zone, "fleets.builders.profile.tart.version=2.30.0", "fleets.builders.profile.tart.sha256=" + strings.Repeat("0", 64), "fleets.builders.profile.tart.source=http://a/t.tgz"}, "fleets/builders/profile/tart/source"},
		"API server without TLS":       {[]string{"manager.apiServerURL=http://api.example:6443"}, "https://host[:port]"},
		"API server without a scheme":  {[]string{"manager.apiServerURL=api.example:6443"}, "https://host[:port]"},
		"API server inside, in full":   {[]string{"manager.apiServerURL=https://kubernetes.default.svc.cluster.local:443"}, "names a Service, which a Mac cannot reach"},
		"API server of another domain": {[]string{"manager.apiServerURL=https://kubernetes.default.svc.k8s.example"}, "names a Service, which a Mac cannot reach"},
		"API server inside":            {[]string{"manager.apiServerURL=https://kubernetes.default.svc"}, "names a Service, which a Mac cannot reach"},
		"image misspelt":               {[]string{"manager.image.name=ours"}, "'name' not allowed"},
		"image's digest":               {[]string{"manager.image.digest=v1"}, "manager/image/digest"},
		"image's pull policy":          {[]string{"manager.image.pullPolicy=Sometimes"}, "'Always', 'IfNotPresent', 'Never'"},
		"resources misspelt":           {[]string{"manager.resources.cpu=1"}, "'cpu' not allowed"},
		"attempts below zero":          {[]string{"manager.bootstrapMaxAttempts=-1"}, "/manager/bootstrapMaxAttempts"},
		"credentials in no Secret":     {[]string{"vendorCredentialsSecret="}, "/vendorCredentialsSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal, err := render(t.Context(), set(c.values...)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(refusal, c.says) {
				t.Errorf("refusal = %q; it should say %q", refusal, c.says)
			}
		})
	}
}

// expression is a fleet that wants hosts by one expression.
func expression(operator string, more ...string) []string {
	const one = "fleets.builders.hostSelector.matchExpressions[0]."
	values := []string{"fleets.builders.zone=fr-par-1", one + "key=chip", one + "operator=" + operator}
	for _, value := range more {
		values = append(values, one+value)
	}
	return values
}

// What looks odd and is right.
func TestSenseIsNotRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"API server with a port":  {"manager.apiServerURL=https://api.example:6443"},
		"API server by IPv6":      {"manager.apiServerURL=https://[2001:db8::1]:6443"},
		"API server in .svc.":     {"manager.apiServerURL=https://k8s.svc.example.com:6443"},
		"API server below a path": {"manager.apiServerURL=https://rancher.example/k8s/clusters/c-1"},
		"shortest pool":           {"pool.prefix=ab-"},
		"no OS, no type":          {"fleets.a.zone=fr-par-1", "fleets.a.os=", "fleets.a.type="},
		"hosts by expression":     expression("In", "values[0]=M2"),
		"a Mac's own settings":    {"fleets.a.zone=fr-par-1", "fleets.a.profile.network.guestEgress.denyPrivate=false", "fleets.a.profile.network.guestEgress.allow[0].cidr=2001:db8::/32", "fleets.a.profile.proofReboot=false", "fleets.a.profile.rollout.soak=0s", "fleets.a.profile.storage.quota=300G"},
		"images and paths":        {"fleets.a.zone=fr-par-1", "fleets.a.profile.images.prePull={r.test:5000/a/b:v1,r.test/a:v1@sha256:" + strings.Repeat("0", 64) + "}", "fleets.a.profile.images.gcLowPercent=84", "fleets.a.profile.pods.hostPaths[0]=/Users/Shared/my cache"},
		"smallest quota":          {"fleets.a.zone=fr-par-1", "fleets.a.profile.storage.quota=40G"},
		"smallest binary quota":   {"fleets.a.zone=fr-par-1", "fleets.a.profile.storage.quota=38Gi"},
		"quota in bytes":          {"fleets.a.zone=fr-par-1", "fleets.a.profile.storage.quota=40000000000"},
		"quota of a unit":         {"fleets.a.zone=fr-par-1", "fleets.a.profile.storage.quota=1T"},
		"no checks for drift":     {"manager.driftCheckInterval=0"},
		"times of two units":      {"manager.reinstallTimeout=1h30m"},
		"label of nodes":          {"fleets.a.zone=fr-par-1", `fleets.a.profile.labels.node\.kubernetes\.io/b=c`},
		"taint of two effects":    {"fleets.a.zone=fr-par-1", "fleets.a.profile.taints[0].key=a", "fleets.a.profile.taints[0].effect=NoExecute", "fleets.a.profile.taints[1].key=a", "fleets.a.profile.taints[1].effect=NoSchedule"},
		"label of a domain":       {"fleets.a.zone=fr-par-1", `fleets.a.profile.labels.example\.com/team=iOS_1.0`},
		"global values":           {"global.imageRegistry=example"},
		"a parent's condition":    {"enabled=true"},
	} {
		if _, refusal, err := render(t.Context(), set(values...)...); err != nil || refusal != "" {
			t.Errorf("%s: %v, %s", name, err, refusal)
		}
	}
}
