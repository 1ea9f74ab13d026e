// Package objects holds the Secrets and ConfigMaps that the Pods of this node
// refer to, and their service account tokens. Each object has a list and a watch
// of its own, which is all that the Node authorizer allows, from the first Pod
// that refers to it to the end of the last. What objects are for is left to
// packages env, volume and image.
package objects
