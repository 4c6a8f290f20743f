#pragma once

#include <string>

#include "tests/client/program.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// A client in a process of its own that leases a model and does not do what it should; see
// rogue_client_main.cc for `mode`. Throws std::runtime_error if it does not get there.
// Thread-compatible.
class RogueClient {
 public:
  RogueClient(const Tenured& daemon, const std::string& model, const std::string& mode);

  // SIGKILL, and waits for its end.
  void Kill();

 private:
  const TempDir temp_;
  Program process_;
};

}  // namespace tenure
