#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tenure {

// Where an HTTP server listens.
struct HttpAddress {
  std::string host;     // as it was given: "localhost", "127.0.0.1", "::1"
  std::string numeric;  // as listeners take it: "127.0.0.1:9400", "[::1]:9400"
  bool loopback = false;
};

// Reads "host:port", "[v6]:port", and looks the host up. BACKEND if it has no address.
StatusOr<HttpAddress> FindHttpAddress(const std::string& address);

// Whether a request with this `Host` header means us. A page of another site may have its own name
// point at 127.0.0.1 and then read what is served here as if it were its own: on a loopback address
// only the names of the machine itself will do, with any port. Everywhere else every name will.
bool MeansUs(const HttpAddress& address, std::string_view host_header);

}  // namespace tenure
