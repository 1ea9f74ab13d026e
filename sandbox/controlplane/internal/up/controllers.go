package up

import (
	"context"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	logsapi "k8s.io/component-base/logs/api/v1"
	controllerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controlleroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// newControllerManager configures the controller manager; run ends with ctx.
func newControllerManager(ctx context.Context, args []string) (run func() error, err error) {
	o, err := controlleroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	all, disabled, aliases := controllerapp.KnownControllers(), controllerapp.ControllersDisabledByDefault(), controllerapp.ControllerAliases()
	sets := o.Flags(all, disabled, aliases)
	o.ParsedFlags = &sets
	if err := parseFlags(sets, args); err != nil {
		return nil, err
	}
	if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return nil, err
	}
	config, err := o.Config(ctx, all, disabled, aliases)
	if err != nil {
		return nil, err
	}
	return func() error { return controllerapp.Run(ctx, config.Complete()) }, nil
}

// newScheduler configures the scheduler; run ends with ctx.
func newScheduler(ctx context.Context, args []string) (run func() error, err error) {
	o := scheduleroptions.NewOptions()
	if err := parseFlags(*o.Flags, args); err != nil {
		return nil, err
	}
	if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return nil, err
	}
	config, scheduler, err := schedulerapp.Setup(ctx, o)
	if err != nil {
		return nil, err
	}
	return func() error { return schedulerapp.Run(ctx, config, scheduler) }, nil
}
