// rogue-client DIRECTORY MODEL MODE: leases a model, does not do what it should, says "ready" and
// waits for its end.
//
//   no-fetch  never asks for the memory
//   no-ack    does not acknowledge the memory
//   no-read   has released the lease and keeps the memory; reads nothing any more, whatever comes
//   keep-fds  has released the lease and said that it unmapped the memory; keeps its fds
//   keep-map  likewise; keeps a map of it and no fd

#include <iostream>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "tests/e2e/wire_client.h"

namespace {

// More answers than the daemon keeps for anybody.
constexpr uint64_t kQuestions = 5'000;

// Maps all of what `fds` stand for, and never unmaps it.
void MapAndClose(std::vector<tenure::UniqueFd>& fds) {
  for (tenure::UniqueFd& fd : fds) {
    struct stat st {};
    if (fstat(fd.get(), &st) != 0 || mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ,
                                          MAP_SHARED, fd.get(), 0) == MAP_FAILED) {
      throw std::runtime_error("cannot map");
    }
    fd.Reset();
  }
}

void Misbehave(tenure::WireClient& client, uint64_t lease, const std::string& mode) {
  if (mode == "no-ack") {
    client.handle().SayFetch(tenure::LeaseId(lease), 0);
    const auto heard = client.handle().Hear();
    if (!heard || heard->fds.empty()) throw std::runtime_error("no memory came");
  } else if (mode == "no-read") {
    std::vector<tenure::UniqueFd> fds;
    client.Fetch(lease, fds);
    if (const std::string refused = client.Release(lease); !refused.empty()) {
      throw std::runtime_error("not released: " + refused);
    }
    for (uint64_t i = 0; i < kQuestions; ++i) client.handle().SayHeartbeat(i);
    for (tenure::UniqueFd& fd : fds) fd.Release();
  } else if (mode == "keep-fds" || mode == "keep-map") {
    std::vector<tenure::UniqueFd> fds;
    const uint64_t share = client.Fetch(lease, fds);
    if (const std::string refused = client.Release(lease); !refused.empty()) {
      throw std::runtime_error("not released: " + refused);
    }
    client.handle().SayUnmapped({share});
    if (!client.handle().IsServed()) throw std::runtime_error("not served");
    if (mode == "keep-map") MapAndClose(fds);
    for (tenure::UniqueFd& fd : fds) fd.Release();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    tenure::WireClient client(argv[1]);
    Misbehave(client, client.Acquire(argv[2]), argv[3]);
    std::cout << "ready" << std::endl;
    while (true) pause();
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
