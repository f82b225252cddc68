// Command caddysuite runs Caddy's own integration suite twice, as it is and
// with the directive reverse_proxy renamed to load_balance, and compares the
// outcomes. A test that passes for Caddy has to pass with the directive
// renamed: that is what makes load_balance a drop-in.
//
//	go run ./integration/caddysuite [-keep] [-run regexp] [-module folder]
//
// The suite is read from Caddy's source at the version that go.mod names and
// rewritten in a temporary folder; nothing of it is kept here. It uses fixed
// ports (9080 and others), so the two runs follow each other, and the machine
// must not use these ports meanwhile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

// minLeaves is the number of leaf tests below which a full run of the suite is
// not believed.
const minLeaves = 300

// options are the command's flags.
type options struct {
	keep   bool   // leave the temporary folder in place
	run    string // regexp for go test -run, both times
	module string // folder of the module that provides load_balance
}

func main() {
	var opts options
	flag.BoolVar(&opts.keep, "keep", false, "keep the temporary folder")
	flag.StringVar(&opts.run, "run", "", "run only the tests that match this `regexp`")
	flag.StringVar(&opts.module, "module", ".", "`folder` of the module that provides load_balance")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, opts)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, errDiffers) { // the report ends with that
		fmt.Fprintln(os.Stderr, "caddysuite:", err)
	}
	os.Exit(1)
}

// run makes both copies of the suite, runs them one after the other and
// prints the comparison.
func run(ctx context.Context, opts options) error {
	plugin, caddy, err := findModules(ctx, opts.module)
	if err != nil {
		return err
	}
	fmt.Printf("suite of %s %s, plugin %s\n", caddy.Path, caddy.Version, plugin.Path)

	temp, err := os.MkdirTemp("", "caddysuite-")
	if err != nil {
		return err
	}
	if opts.keep {
		fmt.Println("copies in", temp)
	} else {
		defer os.RemoveAll(temp)
	}

	stock := suite{name: "stock", dir: filepath.Join(temp, "stock")}
	renamed := suite{name: "renamed", dir: filepath.Join(temp, "renamed")}
	if err := stock.write(ctx, caddy, plugin, nil); err != nil {
		return fmt.Errorf("copying the suite as it is: %w", err)
	}
	names := newRenamer(unchecked)
	if err := renamed.write(ctx, caddy, plugin, names); err != nil {
		return fmt.Errorf("copying the suite with the directive renamed: %w", err)
	}
	if err := names.verify(); err != nil {
		return err
	}
	fmt.Println("renamed:", names)

	before, err := stock.test(ctx, opts.run)
	if err != nil {
		return fmt.Errorf("running the suite as it is: %w", err)
	}
	after, err := renamed.test(ctx, opts.run)
	if err != nil {
		return fmt.Errorf("running the suite with the directive renamed: %w", err)
	}
	least := minLeaves
	if opts.run != "" {
		least = 1
	}
	return report(os.Stdout, before, after, least)
}
