#include "tests/support/emulated_driver/control_block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/unique_fd.h"

namespace tenure::emulated {

// All zeros are a valid state of what is shared, so whoever comes first has nothing to set up.
template <typename Shared>
SharedFile<Shared>::SharedFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid() || ftruncate(fd.get(), sizeof(Shared)) != 0) return;
  void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at != MAP_FAILED) shared_ = static_cast<Shared*>(at);
}

template <typename Shared>
SharedFile<Shared>::~SharedFile() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
}

template class SharedFile<ControlBlock>;
template class SharedFile<ProcessCalls>;

std::string ConfigPath(const std::string& folder) { return folder + "/config"; }
std::string ControlPath(const std::string& folder) { return folder + "/control"; }
std::string ProcessCallsPath(const std::string& folder, int pid) {
  return folder + "/calls-" + std::to_string(pid);
}
std::string HangPath(const std::string& folder, size_t fault) {
  return folder + "/hang-" + std::to_string(fault);
}

}  // namespace tenure::emulated
