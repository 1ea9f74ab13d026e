package main

import (
	"context"
	"errors"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	critest "k8s.io/cri-api/pkg/apis/testing"
)

// images are there once they were pulled, which all can be but those that are called missing.
type images struct{ *critest.FakeImageService }

func newImages() images { return images{critest.NewFakeImageService()} }

// PullImage pulls at once.
func (i images) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	if strings.Contains(image.Image, "missing") {
		return "", errors.New("not found")
	}
	return i.FakeImageService.PullImage(ctx, image, auth, sandbox)
}
