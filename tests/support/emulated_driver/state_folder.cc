#include "tests/support/emulated_driver/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <memory>
#include <random>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenure::emulated {
namespace {

constexpr uint64_t kMagic = 0x54656e7572654d65;
// Behind the memory lies one page with the record.
constexpr uint64_t kRecordPage = 4096;

uint64_t Random() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device() | 1;
}

const AllocationRecord& RecordBehind(const std::byte* bytes, uint64_t size) {
  return *reinterpret_cast<const AllocationRecord*>(bytes + size);
}

// The record that a file ends with; nothing if it is no allocation.
std::optional<AllocationRecord> ReadRecord(int fd) {
  struct stat file {};
  if (fstat(fd, &file) != 0 || file.st_size < static_cast<off_t>(kRecordPage)) return std::nullopt;
  const off_t at = file.st_size - static_cast<off_t>(kRecordPage);
  AllocationRecord record;
  if (pread(fd, &record, sizeof(record), at) != sizeof(record)) return std::nullopt;
  if (record.magic != kMagic || record.size != static_cast<uint64_t>(at)) return std::nullopt;
  return record;
}

// Removes the file if nobody holds it, and tells whether somebody does.
bool HeldBySomebody(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return errno != ENOENT;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return true;
  unlink(path.c_str());
  return false;
}

// Opens the file of an fd anew: an open file description of one's own.
UniqueFd Reopen(int fd, int flags) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return UniqueFd(open(path.c_str(), flags | O_CLOEXEC));
}

}  // namespace

Share::Share(Share&& other) noexcept
    : folder_(other.folder_), bytes_(std::exchange(other.bytes_, nullptr)), size_(other.size_) {}

Share::~Share() {
  if (bytes_ != nullptr) folder_->Return(bytes_, size_);
}

const AllocationRecord& Share::record() const { return RecordBehind(bytes_, size_); }

UniqueFd Share::Export() const {
  UniqueFd file(open(folder_->AllocationPath(record()).c_str(), O_WRONLY | O_CLOEXEC));
  if (file.valid() && flock(file.get(), LOCK_SH | LOCK_NB) != 0) file.Reset();
  return file;
}

class StateFolder::Lock {
 public:
  explicit Lock(StateFolder& folder) : folder_(folder) {
    folder_.mutex_.Lock();
    while (flock(folder_.lock_.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Lock() {
    flock(folder_.lock_.get(), LOCK_UN);
    folder_.mutex_.Unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  StateFolder& folder_;
};

StateFolder::StateFolder(std::string path)
    : path_(std::move(path)),
      control_(ControlPath(path_)),
      lock_(open((path_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  uint64_t unset = 0;
  if (valid()) control_->folder.compare_exchange_strong(unset, Random());
}

std::string StateFolder::AllocationPath(const AllocationRecord& record) const {
  return path_ + "/allocation-" + std::to_string(record.gpu) + "-" + std::to_string(record.charge) +
         "-" + std::to_string(record.serial);
}

std::optional<Share> StateFolder::Hold(const UniqueFd& file, uint64_t size) {
  if (!file.valid() || flock(file.get(), LOCK_SH | LOCK_NB) != 0) return std::nullopt;
  // The map keeps the open file description and with it the lock; the fd need not stay.
  void* const at =
      mmap(nullptr, size + kRecordPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED) return std::nullopt;
  return Share(*this, static_cast<std::byte*>(at), size);
}

namespace {

// The driver does not promise that new memory is clear, so it is not.
bool LeaveTraces(int file, uint64_t size) {
  constexpr std::string_view kTrace = "left by whoever had this memory before";
  constexpr uint64_t kInterval = uint64_t{1} << 20;
  for (uint64_t at = 0; at + kTrace.size() <= size; at += kInterval) {
    const ssize_t written = pwrite(file, kTrace.data(), kTrace.size(), static_cast<off_t>(at));
    if (written != static_cast<ssize_t>(kTrace.size())) return false;
  }
  return true;
}

}  // namespace

std::optional<Share> StateFolder::Take(AllocationRecord record, Bytes capacity, Refusal& refusal) {
  const Lock lock(*this);
  std::atomic<uint64_t>& charged = control_->charged[record.gpu];
  const auto fits = [&] {
    const uint64_t used = charged.load();
    return used <= capacity.count() && record.charge <= capacity.count() - used;
  };
  // Processes that were killed never took their charges back.
  if (!fits()) charged = Count(record.gpu);
  refusal = fits() ? Refusal::kBroken : Refusal::kFull;
  if (refusal == Refusal::kFull) return std::nullopt;
  record.magic = kMagic;
  record.folder = control_->folder;
  record.serial = Random();
  charged += record.charge;
  const UniqueFd file(
      open(AllocationPath(record).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(record.size + kRecordPage)) != 0 ||
      pwrite(file.get(), &record, sizeof(record), static_cast<off_t>(record.size)) !=
          sizeof(record) ||
      !LeaveTraces(file.get(), record.size)) {
    return std::nullopt;
  }
  std::optional<Share> share = Hold(file, record.size);
  if (share) refusal = Refusal::kNone;
  return share;
}

std::optional<Share> StateFolder::Import(int fd) {
  // The fd given keeps the allocation alive until the new share does.
  const UniqueFd file = Reopen(fd, O_RDWR);
  if (!file.valid()) return std::nullopt;
  const std::optional<AllocationRecord> record = ReadRecord(file.get());
  if (!record || record->folder != control_->folder) return std::nullopt;
  return Hold(file, record->size);
}

Bytes StateFolder::InUse(size_t gpu) {
  const Lock lock(*this);
  return Bytes(Count(gpu));
}

void StateFolder::Return(std::byte* bytes, uint64_t size) {
  const AllocationRecord record = RecordBehind(bytes, size);
  const Lock lock(*this);
  munmap(bytes, size + kRecordPage);
  if (!HeldBySomebody(AllocationPath(record))) control_->charged[record.gpu] -= record.charge;
}

uint64_t StateFolder::Count(size_t gpu) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path_.c_str()), closedir);
  uint64_t in_use = 0;
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder.get())) {
    size_t of_gpu = 0;
    uint64_t charge = 0;
    if (sscanf(entry->d_name, "allocation-%zu-%" SCNu64, &of_gpu, &charge) != 2) continue;
    if (of_gpu == gpu && HeldBySomebody(path_ + "/" + entry->d_name)) in_use += charge;
  }
  return in_use;
}

}  // namespace tenure::emulated
