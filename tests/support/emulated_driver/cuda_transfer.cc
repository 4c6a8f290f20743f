#include "tests/support/emulated_driver/cuda_transfer.h"

#include <algorithm>
#include <chrono>
#include <string.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace tenure::emulated {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);

// INVALID_VALUE for an end that cannot be one: device memory that is not mapped, or host memory
// that is not wholly pinned or wholly pageable.
CUresult Check(const Driver& driver, const Place& place, size_t size) {
  bool valid = true;
  if (place.kind == Place::Kind::kDevice) valid = driver.addresses.Covers(place.at, size);
  if (place.kind == Place::Kind::kHost) {
    valid = place.at != 0 && !driver.addresses.Touches(place.at, size) &&
            driver.pinned.KindOf(place.host(), size) != PinnedMemory::Kind::kMixed;
  }
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool Overlap(const Transfer& transfer) {
  const auto& [to, from, size] = transfer;
  return to.kind == Place::Kind::kDevice && from.kind == Place::Kind::kDevice &&
         (to.at < from.at ? from.at - to.at : to.at - from.at) < size;
}

CUresult Check(const Driver& driver, const Transfer& transfer) {
  if (Overlap(transfer)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult to = Check(driver, transfer.to, transfer.size);
  return to != CUDA_SUCCESS ? to : Check(driver, transfer.from, transfer.size);
}

bool Pageable(const Driver& driver, const Place& place, size_t size) {
  return place.kind == Place::Kind::kHost &&
         driver.pinned.KindOf(place.host(), size) == PinnedMemory::Kind::kPageable;
}

CUresult Resolve(const Driver& driver, const Place& place, size_t size, size_t gpu, bool write,
                 std::vector<DevicePiece>& pieces) {
  if (place.kind == Place::Kind::kDevice) {
    return driver.addresses.Resolve(place.at, size, gpu, write, pieces);
  }
  pieces.push_back({nullptr, place.host(), size});
  return CUDA_SUCCESS;
}

// Zeros become a hole in the file, which takes neither time nor room.
void Fill(std::byte* bytes, size_t size, unsigned char value) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const bool whole_pages = reinterpret_cast<uintptr_t>(bytes) % page == 0 && size % page == 0;
  if (value == 0 && whole_pages && madvise(bytes, size, MADV_REMOVE) == 0) return;
  memset(bytes, value, size);
}

// The work of a transfer. A forbidden access ends the context.
CUresult Run(const Driver& driver, PrimaryCtx& ctx, const Transfer& transfer) {
  if (const CUresult health = ctx.Health(); health != CUDA_SUCCESS) return health;
  std::vector<DevicePiece> to;
  std::vector<DevicePiece> from;
  CUresult result = Resolve(driver, transfer.to, transfer.size, ctx.gpu(), true, to);
  if (result == CUDA_SUCCESS) {
    result = Resolve(driver, transfer.from, transfer.size, ctx.gpu(), false, from);
  }
  if (result != CUDA_SUCCESS) {
    ctx.Fail(result);
    return result;
  }
  if (transfer.from.kind == Place::Kind::kFill) {
    for (const DevicePiece& piece : to) Fill(piece.bytes, piece.size, transfer.from.byte);
    return CUDA_SUCCESS;
  }
  auto source = from.begin();
  for (DevicePiece& piece : to) {
    while (piece.size > 0) {
      const uint64_t part = std::min(piece.size, source->size);
      memmove(piece.bytes, source->bytes, part);
      piece.bytes += part;
      piece.size -= part;
      source->bytes += part;
      source->size -= part;
      if (source->size == 0) ++source;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CopyNow(Driver& driver, PrimaryCtx& ctx, const Transfer& transfer) {
  if (transfer.size == 0) return CUDA_SUCCESS;
  if (const CUresult checked = Check(driver, transfer); checked != CUDA_SUCCESS) return checked;
  ctx.SynchronizeBlocking();
  return Run(driver, ctx, transfer);
}

CUresult CopyAsync(Driver& driver, PrimaryCtx& ctx, const Transfer& transfer, CUstream handle) {
  std::shared_ptr<Stream> stream;
  if (const CUresult found = FindStream(driver, handle, stream); found != CUDA_SUCCESS) {
    return found;
  }
  if (stream == nullptr) return CopyNow(driver, ctx, transfer);
  if (transfer.size == 0) return CUDA_SUCCESS;
  if (const CUresult checked = Check(driver, transfer); checked != CUDA_SUCCESS) return checked;
  Transfer work = transfer;
  std::shared_ptr<std::vector<std::byte>> staged;
  if (Pageable(driver, work.from, work.size)) {
    stream->Drain();
    staged =
        std::make_shared<std::vector<std::byte>>(work.from.host(), work.from.host() + work.size);
    work.from = Place::Host(staged->data());
  }
  PrimaryCtx& owner = stream->ctx();
  stream->Enqueue([&driver, &owner, work, staged] {
    std::this_thread::sleep_for(owner.copy_delay());
    while (owner.folder().control().streams_held) std::this_thread::sleep_for(kPoll);
    Run(driver, owner, work);
  });
  if (!Pageable(driver, work.to, work.size)) return CUDA_SUCCESS;
  stream->Drain();
  return owner.Health();
}

CUresult FindStream(const Driver& driver, CUstream handle, std::shared_ptr<Stream>& stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return CUDA_SUCCESS;
  stream = driver.streams.Find(handle);
  return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace tenure::emulated
