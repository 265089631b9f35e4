// SPDX-License-Identifier: Apache-2.0 OR MIT

// The OpenTelemetry collector's own receiver for OTLP over HTTP. What it takes
// is printed as JSON, one request a line; what it refuses, it answers for.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func taken(_ context.Context, metrics pmetric.Metrics) error {
	text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
	if err == nil {
		fmt.Println(string(text))
	}
	return err
}

func run(address string) error {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	told := confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{"http": map[string]any{"endpoint": address}},
	})
	if err := told.Unmarshal(config); err != nil {
		return err
	}
	next, err := consumer.NewMetrics(taken)
	if err != nil {
		return err
	}
	settings := receiver.Settings{
		ID:                component.NewID(factory.Type()),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
		BuildInfo:         component.NewDefaultBuildInfo(),
	}
	until, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	metrics, err := factory.CreateMetrics(until, settings, config, next)
	if err != nil {
		return err
	}
	if err := metrics.Start(until, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("listening")
	<-until.Done()
	return metrics.Shutdown(context.Background())
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
