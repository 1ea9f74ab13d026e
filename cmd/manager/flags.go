package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/cloud/scaleway"
	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// Forms of log lines.
const (
	formatJSON = "json"
	formatText = "text"
)

// defaultAgentDir is where the image holds the agent for Macs.
const defaultAgentDir = "/agent"

// The recovery ladder of requirement 003: a reboot first, another host at last.
const (
	defaultRebootAfter = 3
	// defaultRecoverAfter outlasts a Mac that boots and a network that is away for a moment.
	defaultRecoverAfter = 5 * time.Minute
	defaultMaxAttempts  = 8
)

// defaultDriftCheck costs each Mac one SSH execution every six hours.
const defaultDriftCheck = 6 * time.Hour

// shortestDriftCheck: a check takes some seconds on the Mac and a slot here.
const shortestDriftCheck = time.Second

// shortestClaimPrefix: as for pools, a shorter one would match nearly any name.
const shortestClaimPrefix = 3

// settings are the flags and the environment, checked.
type settings struct {
	kubeconfig          string
	leaderElect         bool
	namespace           string
	watchFilter         string
	metricsAddress      string
	metricsCertDir      string
	insecureMetrics     bool
	profiling           bool
	tracingEndpoint     string
	probeAddress        string
	machineConcurrency  int
	hostConcurrency     int
	convergeConcurrency int
	kubeQPS             float64
	kubeBurst           int
	defaultPoolPrefix   string
	poolPrefixes        string
	trustUnseen         bool
	reclaimZones        string
	reclaimInterval     time.Duration
	reclaimAfter        time.Duration
	claimNamePrefix     string
	reportNamePrefix    string
	rebootAfter         int
	recoverAfter        time.Duration
	maxAttempts         int
	reinstallTimeout    time.Duration
	inventoryInterval   time.Duration
	driftCheckInterval  time.Duration
	vendorQPS           float64
	credentialsDir      string
	sshPort             int
	agentDir            string
	apiServerURL        string
	logFormat           string
	showVersion         bool
	vendor              scaleway.Options
	parsedReclaimZones  []string
	namespacePools      map[string][]string
}

func (s *settings) flags() *flag.FlagSet {
	f := flag.NewFlagSet("manager", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller says it in one line
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "path of a kubeconfig; default: KUBECONFIG, or the cluster the manager runs in")
	f.BoolVar(&s.leaderElect, "leader-elect", true, "let one of several managers work at a time")
	f.StringVar(&s.namespace, "namespace", "", "namespace to watch; empty: all")
	f.StringVar(&s.watchFilter, "watch-filter", "", "value of the label cluster.x-k8s.io/watch-filter that objects must have; empty: all objects")
	f.StringVar(&s.metricsAddress, "metrics-bind-address", defaultMetricsAddress, "where metrics are served, over TLS and to whoever may get /metrics; 0: nowhere")
	f.StringVar(&s.metricsCertDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for the metrics, read again when they change; default: a certificate that the manager makes and signs itself")
	f.BoolVar(&s.insecureMetrics, "insecure-metrics", false, "serve metrics over plain HTTP to whoever asks: for an address that nobody else reaches")
	f.BoolVar(&s.profiling, "profiling", false, "serve Go's profiles below /debug/pprof/ beside the metrics, to whoever may get that path")
	f.StringVar(&s.tracingEndpoint, "tracing-endpoint", "", "URL of an OTLP collector's gRPC port that spans are sent to, such as http://collector:4317; empty: none are made")
	f.StringVar(&s.probeAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0: nowhere")
	f.IntVar(&s.machineConcurrency, "machine-concurrency", 32, "Machines looked at at once")
	f.IntVar(&s.hostConcurrency, "host-concurrency", hostcontroller.DefaultConcurrency, "hosts looked at at once")
	f.IntVar(&s.convergeConcurrency, "converge-concurrency", 20, "Macs converged at once")
	f.Float64Var(&s.kubeQPS, "kube-api-qps", 100, "requests a second to the Kubernetes API")
	f.IntVar(&s.kubeBurst, "kube-api-burst", 200, "burst of requests to the Kubernetes API")
	f.StringVar(&s.defaultPoolPrefix, "default-adopt-pool-prefix", "", "name prefix of the pool of Machines that name none")
	f.StringVar(&s.poolPrefixes, "pool-prefixes", "", "pools that the Machines of a namespace may name beside the default, namespace=prefix for each, separated by commas; with neither, Machines may name any")
	f.BoolVar(&s.trustUnseen, "trust-unseen", true, "take servers of the pool as clean that this manager never saw wiped; false: wipe each once before it is used")
	f.StringVar(&s.reclaimZones, "orphan-reclaim-zones", "", "zones to keep an eye on beside those of Clusters, separated by commas")
	f.DurationVar(&s.reclaimInterval, "orphan-reclaim-interval", hostcontroller.DefaultReclaimInterval, "time between two sweeps for hosts that nobody owns")
	f.DurationVar(&s.reclaimAfter, "orphan-reclaim-after", host.DefaultReclaimAfter, "how long a host must have been seen stray before it is taken back")
	f.StringVar(&s.claimNamePrefix, "orphan-reclaim-claim-name-prefix", "", "how the names of servers begin that a sweep may wipe and give back to the pool; empty: it only reports")
	f.StringVar(&s.reportNamePrefix, "claim-name-prefix", "", "how the names of servers begin that this cluster claims, to count strays of such names as stranded; default: --orphan-reclaim-claim-name-prefix")
	f.DurationVar(&s.recoverAfter, "bootstrap-recover-after", defaultRecoverAfter, "least time from the first failed bootstrap attempt of a claim until its Mac is rebooted or given back, however many attempts failed; 0: none")
	f.IntVar(&s.rebootAfter, "bootstrap-reboot-after", defaultRebootAfter, "failed bootstrap attempts after which a Mac is rebooted, once a claim; 0: never")
	f.IntVar(&s.maxAttempts, "bootstrap-max-attempts", defaultMaxAttempts, "failed bootstrap attempts after which a Machine takes another host, as many of them after the reboot as lie between the two; 0: never")
	f.DurationVar(&s.reinstallTimeout, "reinstall-timeout", hostcontroller.DefaultReinstallTimeout, "how long a wipe may take before it is asked for again")
	f.DurationVar(&s.inventoryInterval, "inventory-interval", hostcontroller.DefaultInventoryInterval, "time between two lists of a zone")
	f.DurationVar(&s.driftCheckInterval, "drift-check-interval", defaultDriftCheck, "how often each Mac is looked at for what was changed on it; 0: never")
	f.Float64Var(&s.vendorQPS, "vendor-qps", scaleway.DefaultQPS, "requests a second to the vendor")
	f.StringVar(&s.credentialsDir, "vendor-credentials", "", "directory with the vendor's credentials, one file a variable, read again when they change; default: the environment")
	f.IntVar(&s.sshPort, "ssh-port", 22, "SSH port of the Macs")
	f.StringVar(&s.agentDir, "agent-dir", defaultAgentDir, "directory that holds tart-kubelet for darwin/arm64, or tart-kubelet.gz")
	f.StringVar(&s.apiServerURL, "api-server-url", "", "URL of the API server as a Mac reaches it; default: kube-public/cluster-info's")
	f.StringVar(&s.logFormat, "log-format", formatJSON, "json or text")
	f.BoolVar(&s.showVersion, "version", false, "print the version and exit")
	return f
}

func usage(out io.Writer) {
	f := (&settings{}).flags()
	f.SetOutput(out)
	_, _ = fmt.Fprintln(out, "manager runs the controllers of macfleet. Credentials come from SCW_ACCESS_KEY, SCW_SECRET_KEY,\nSCW_DEFAULT_PROJECT_ID and, for another address than the vendor's own, SCW_API_URL: files in the directory\n--vendor-credentials, or variables of the environment.")
	f.PrintDefaults()
	_, _ = fmt.Fprintln(out)
	for _, o := range oneOffs() {
		_, _ = fmt.Fprintf(out, "\"manager %s %s\" %s\n", o.name, o.verb, o.about)
	}
}

// parse reads flags and environment. Its errors are one line each.
func parse(args []string, getenv func(string) string) (settings, error) {
	var s settings
	f := s.flags()
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, err
		}
		return s, wrong("%w", err)
	}
	if f.NArg() > 0 {
		return s, wrong("unexpected argument %q", f.Arg(0))
	}
	if s.showVersion {
		return s, nil
	}
	if s.defaultPoolPrefix == "" && isSet(f, "default-adopt-pool-prefix") {
		return s, wrong("--default-adopt-pool-prefix is empty: leave it out where every Machine names its own pool")
	}
	if err := s.readCredentials(getenv); err != nil {
		return s, &usageError{err}
	}
	if err := s.check(); err != nil {
		return s, &usageError{err}
	}
	return s, nil
}

// readCredentials takes them from the one place or the other, never mixed.
func (s *settings) readCredentials(getenv func(string) string) error {
	s.vendor = scaleway.Options{QPS: s.vendorQPS, UserAgent: "macfleet/" + version}
	found := scaleway.Environment(getenv)
	if s.credentialsDir != "" {
		s.vendor.Source = scaleway.Directory(s.credentialsDir)
		var err error
		if found, err = s.vendor.Source(); err != nil {
			return fmt.Errorf("--vendor-credentials: %w", err)
		}
	}
	s.vendor.AccessKey, s.vendor.SecretKey = found.AccessKey, found.SecretKey
	s.vendor.ProjectID, s.vendor.APIURL = found.ProjectID, found.APIURL
	return nil
}

// isSet reports whether a flag was on the command line.
func isSet(f *flag.FlagSet, name string) bool {
	found := false
	f.Visit(func(one *flag.Flag) { found = found || one.Name == name })
	return found
}

func (s *settings) check() error {
	for flagName, n := range map[string]float64{
		"machine-concurrency": float64(s.machineConcurrency), "host-concurrency": float64(s.hostConcurrency),
		"converge-concurrency": float64(s.convergeConcurrency), "kube-api-qps": s.kubeQPS, "kube-api-burst": float64(s.kubeBurst),
		"vendor-qps": s.vendorQPS, "ssh-port": float64(s.sshPort), "inventory-interval": s.inventoryInterval.Seconds(),
		"orphan-reclaim-interval": s.reclaimInterval.Seconds(), "orphan-reclaim-after": s.reclaimAfter.Seconds(), "reinstall-timeout": s.reinstallTimeout.Seconds(),
	} {
		if n <= 0 {
			return fmt.Errorf("--%s must be greater than 0", flagName)
		}
	}
	if s.rebootAfter < 0 || s.maxAttempts < 0 || s.recoverAfter < 0 {
		return errors.New("--bootstrap-reboot-after, --bootstrap-max-attempts and --bootstrap-recover-after must be 0 or greater")
	}
	if s.driftCheckInterval != 0 && s.driftCheckInterval < shortestDriftCheck {
		return fmt.Errorf("--drift-check-interval must be 0, for never, or at least %s", shortestDriftCheck)
	}
	if s.sshPort > 65535 {
		return errors.New("--ssh-port is no port number")
	}
	if s.logFormat != formatJSON && s.logFormat != formatText {
		return fmt.Errorf("--log-format must be %s or %s", formatJSON, formatText)
	}
	if err := s.checkTracing(); err != nil {
		return err
	}
	if err := s.checkMetrics(); err != nil {
		return err
	}
	if err := s.checkZones(); err != nil {
		return err
	}
	if err := s.checkPrefixes(); err != nil {
		return err
	}
	if err := s.checkPools(); err != nil {
		return err
	}
	if err := checkAPIServerURL(s.apiServerURL); err != nil {
		return err
	}
	return s.vendor.Validate()
}

// checkPrefixes keeps the names of the pool and of claimed servers apart: a pool
// host that counts as claimed would be wiped, a claimed one would be taken.
func (s *settings) checkPrefixes() error {
	for name, prefix := range map[string]string{"orphan-reclaim-claim-name-prefix": s.claimNamePrefix, "claim-name-prefix": s.reportNamePrefix} {
		if err := checkClaimPrefix(name, prefix); err != nil {
			return err
		}
	}
	if s.defaultPoolPrefix == "" {
		return nil
	}
	if err := host.CheckPrefix(s.defaultPoolPrefix); err != nil {
		return fmt.Errorf("--default-adopt-pool-prefix: %w", err)
	}
	if s.claimNamePrefix == "" {
		return nil
	}
	if strings.HasPrefix(s.defaultPoolPrefix, s.claimNamePrefix) {
		return fmt.Errorf("--orphan-reclaim-claim-name-prefix: %q is too wide: names of the pool %q would count as claimed", s.claimNamePrefix, s.defaultPoolPrefix)
	}
	if strings.HasPrefix(s.claimNamePrefix, s.defaultPoolPrefix) {
		return fmt.Errorf("--orphan-reclaim-claim-name-prefix: names that begin with %q would count as the pool's %q", s.claimNamePrefix, s.defaultPoolPrefix)
	}
	return nil
}

// checkClaimPrefix refuses a prefix that nearly any name has.
func checkClaimPrefix(flagName, prefix string) error {
	form := regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*-$`)
	if prefix != "" && (len(prefix) < shortestClaimPrefix || !form.MatchString(prefix)) {
		return fmt.Errorf("--%s: %q must be at least %d lower-case letters, digits and '-', and end in '-'", flagName, prefix, shortestClaimPrefix)
	}
	return nil
}

func (s *settings) checkZones() error {
	if s.reclaimZones == "" {
		return nil
	}
	zone := regexp.MustCompile(`^[a-z]{2}-[a-z]{3}-[0-9]+$`)
	for name := range strings.SplitSeq(s.reclaimZones, ",") {
		name = strings.TrimSpace(name)
		if !zone.MatchString(name) {
			return fmt.Errorf("--orphan-reclaim-zones: %q is no zone such as fr-par-1", name)
		}
		s.parsedReclaimZones = append(s.parsedReclaimZones, name)
	}
	return nil
}

func checkAPIServerURL(text string) error {
	if text == "" {
		return nil
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return errors.New("--api-server-url must be https://host[:port]")
	}
	if workload.InCluster(text) {
		return errors.New("--api-server-url names a Service, which a Mac cannot reach")
	}
	return nil
}
