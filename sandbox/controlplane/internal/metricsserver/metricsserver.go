// Package metricsserver is Kubernetes' metrics-server, with the flags of the original.
package metricsserver

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app/options"
	"sigs.k8s.io/metrics-server/pkg/api"
	"sigs.k8s.io/metrics-server/pkg/server"
)

// Main runs metrics-server until SIGINT or SIGTERM, and returns the exit code.
func Main(args []string, stderr io.Writer) int {
	config, err := configure(args)
	if err != nil {
		fmt.Fprintln(stderr, "metrics-server:", err)
		return 2
	}
	if err := run(config); err != nil {
		fmt.Fprintln(stderr, "metrics-server:", err)
		return 1
	}
	return 0
}

func configure(args []string) (*server.Config, error) {
	o := options.NewOptions()
	flags := pflag.NewFlagSet("metrics-server", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if err := errors.Join(o.Validate()...); err != nil {
		return nil, err
	}
	config, err := o.ServerConfig()
	if err != nil {
		return nil, err
	}
	// Its own descriptions of types bear the names that they had in Kubernetes 1.33.
	names := openapinamer.NewDefinitionNamer(api.Scheme)
	config.Apiserver.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, names)
	config.Apiserver.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, names)
	return config, nil
}

func run(config *server.Config) error {
	s, err := config.Complete()
	if err != nil {
		return err
	}
	return s.RunUntil(genericapiserver.SetupSignalHandler())
}
