#include "tests/support/emulated_driver/state_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
constexpr char kNameFormat[] = "allocation-%u-%" SCNu64 "-%" SCNu64;

uint64_t Random() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device() | 1;
}

const AllocationRecord& RecordOf(const std::byte* bytes, uint64_t size) {
  return *reinterpret_cast<const AllocationRecord*>(bytes + size);
}

// The record that an fd's file ends with.
std::optional<AllocationRecord> ReadRecord(int fd) {
  struct stat file {};
  AllocationRecord record;
  if (fstat(fd, &file) != 0 || file.st_size < static_cast<off_t>(kRecordPage)) return std::nullopt;
  const off_t at = file.st_size - static_cast<off_t>(kRecordPage);
  if (pread(fd, &record, sizeof(record), at) != sizeof(record)) return std::nullopt;
  if (record.magic != kMagic || record.size != static_cast<uint64_t>(at)) return std::nullopt;
  return record;
}

}  // namespace

Share::Share(Share&& other) noexcept
    : folder_(other.folder_), bytes_(std::exchange(other.bytes_, nullptr)) {}
}  // namespace tenure::emulated
