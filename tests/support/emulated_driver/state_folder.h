#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "tests/support/emulated_driver/control_block.h"

namespace tenure::emulated {

class StateFolder;

// What an allocation's file tells about it, to this process and to those that import it.
struct AllocationRecord {
  uint64_t magic = 0;
  uint64_t folder = 0;  // the ControlBlock's
  uint64_t size = 0;    // of the memory, a multiple of the page; 0 for a context
  uint64_t charge = 0;  // what it takes of the device
  uint64_t serial = 0;  // makes its name unique
  uint32_t gpu = 0;     // by position in the configuration
  uint32_t exportable = 0;
  uint32_t gpu_direct_rdma = 0;
};

// One process's share in an allocation: the memory, mapped. The allocation lives while a share of
// any process or an exported fd of it is left. Move-only; the destructor gives the share back.
class Share {
 public:
  Share(StateFolder& folder, std::byte* bytes, uint64_t size)
      : folder_(&folder), bytes_(bytes), size_(size) {}
  Share(Share&& other) noexcept;
  Share& operator=(Share&&) = delete;
  ~Share();

  // The driver's own map of the memory; device addresses are elsewhere and can't be touched.
  std::byte* bytes() const { return bytes_; }
  const AllocationRecord& record() const;

  // A new fd that keeps the allocation alive by itself. Like the real one it cannot be mapped or
  // read. Invalid if the process is out of fds.
  UniqueFd Export() const;

 private:
  StateFolder* folder_;
  std::byte* bytes_;  // null once moved from
  uint64_t size_;
};

// The memory of the emulated machine, shared by all processes that open the same folder. Each
// allocation is a file. Whoever holds a part in it, by a map or by an exported fd, has an open file
// description of his own with a shared flock, which the kernel drops however he ends; an allocation
// whose exclusive lock can be had is nobody's and its file is removed. Nothing else is bookkeeping:
//
//   bytes in use of a GPU = sum of the charges of its files that somebody holds
//   bytes in use          <= ControlBlock::charged, which spares most scans
//
// Thread-safe; every operation holds the folder's lock file.
class StateFolder {
 public:
  explicit StateFolder(std::string path);

  // False if the folder cannot be used.
  bool valid() const { return control_.valid() && lock_.valid(); }
  const std::string& path() const { return path_; }
  ControlBlock& control() const { return *control_; }

  enum class Refusal { kNone, kFull, kBroken };
  // Makes an allocation as `record` asks, whose magic, folder and serial are filled in; kFull if
  // the GPU would then hold more than `capacity`.
  std::optional<Share> Take(AllocationRecord record, Bytes capacity, Refusal& refusal);

  // A share in the allocation behind an exported fd; nothing if it is none of this folder's.
  std::optional<Share> Import(int fd);

  // Bytes in use of one GPU, counted now.
  Bytes InUse(size_t gpu);

 private:
  friend class Share;
  class Lock;

  std::string AllocationPath(const AllocationRecord& record) const;
  std::optional<Share> Hold(const UniqueFd& file, uint64_t size);
  void Return(std::byte* bytes, uint64_t size);
  // REQUIRES: the lock file is held.
  uint64_t Count(size_t gpu);

  const std::string path_;
  const SharedFile<ControlBlock> control_;
  const UniqueFd lock_;  // of the lock file
  Mutex mutex_;          // one thread of this process at a time takes the lock file
};

}  // namespace tenure::emulated
