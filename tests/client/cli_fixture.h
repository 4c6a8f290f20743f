#pragma once

#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/program.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// tenurectl against a daemon of its own.
class CliTest : public ::testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out;
    std::string err;
  };

  Outcome Run(std::vector<std::string> arguments) {
    std::vector<std::string> all = {TENURECTL_PATH, "--directory", daemon_.directory()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Program program(std::move(all), temp_ / "ctl");
    Outcome outcome;
    outcome.code = program.Wait();
    outcome.out = program.Out();
    outcome.err = program.Err();
    return outcome;
  }

  DaemonProcess daemon_{DaemonSettings{}};
  const TempDir temp_;
};

}  // namespace tenure
