// Package docs holds the book to the code: each row of a requirement and each
// promise names a test that exists, each reason that people can meet is explained,
// and each link leads somewhere. Whether a sentence is true is for its reader.
package docs
