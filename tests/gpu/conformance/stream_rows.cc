// Streams and events.

#include <vector>

#include "tests/gpu/conformance/device_memory.h"
#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {
namespace {

// A stream of its own, destroyed with this object.
class OwnStream {
 public:
  explicit OwnStream(Scene& scene) : scene_(scene) {
    created_ = scene.cuda.StreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  }
  ~OwnStream() { scene_.cuda.StreamDestroy(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  int created() const { return created_; }
  CUstream get() const { return stream_; }

 private:
  Scene& scene_;
  CUstream stream_ = nullptr;
  int created_;
};

// An event of its own, destroyed with this object.
class OwnEvent {
 public:
  explicit OwnEvent(Scene& scene, unsigned flags = CU_EVENT_DEFAULT) : scene_(scene) {
    created_ = scene.cuda.EventCreate(&event_, flags);
  }
  ~OwnEvent() { scene_.cuda.EventDestroy(event_); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  int created() const { return created_; }
  CUevent get() const { return event_; }

 private:
  Scene& scene_;
  CUevent event_ = nullptr;
  int created_;
};

int TryEventFlags(Scene& scene, unsigned flags) {
  CUevent event = nullptr;
  const int result = scene.cuda.EventCreate(&event, flags);
  if (result == CUDA_SUCCESS) scene.cuda.EventDestroy(event);
  return result;
}

int ByteAt(Scene& scene, CUdeviceptr at, unsigned char expected) {
  unsigned char byte = 0;
  const int result = scene.cuda.MemcpyDtoH(&byte, at, 1);
  if (result != CUDA_SUCCESS) return result;
  return byte == expected ? CUDA_SUCCESS : kWrongValue;
}

// The time between two events, both recorded if `recorded`.
int Elapsed(Scene& scene, unsigned flags, bool recorded) {
  const OwnStream stream(scene);
  const OwnEvent begin(scene, flags);
  const OwnEvent end(scene, flags);
  int ready = FirstFailure({stream.created(), begin.created(), end.created()});
  if (recorded && ready == CUDA_SUCCESS) {
    ready = FirstFailure({scene.cuda.EventRecord(begin.get(), stream.get()),
                          scene.cuda.EventRecord(end.get(), stream.get()),
                          scene.cuda.StreamSynchronize(stream.get())});
  }
  if (ready != CUDA_SUCCESS) return ready;
  float milliseconds = -1;
  const int result = scene.cuda.EventElapsedTime(&milliseconds, begin.get(), end.get());
  return result != CUDA_SUCCESS || milliseconds >= 0 ? result : kWrongValue;
}

}  // namespace

Table StreamRows() {
  return {
      {"cuStreamCreate refuses flags that are none",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         CUstream stream = nullptr;
         return scene.cuda.StreamCreate(&stream, 0x100);
       }},
      {"cuStreamQuery tells that a stream without work is done",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const OwnStream stream(scene);
         return FirstFailure({stream.created(), scene.cuda.StreamQuery(stream.get())});
       }},
      {"Pageable memory is read before an asynchronous copy returns",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         const OwnStream stream(scene);
         std::vector<unsigned char> bytes(granule.size(), 1);
         const int copied = FirstFailure(
             {granule.ready(), stream.created(),
              scene.cuda.MemcpyHtoDAsync(granule.at(), bytes.data(), bytes.size(), stream.get())});
         if (copied != CUDA_SUCCESS) return copied;
         bytes.assign(bytes.size(), 2);
         return FirstFailure({scene.cuda.StreamSynchronize(stream.get()),
                              ByteAt(scene, granule.at() + granule.size() - 1, 1)});
       }},
      {"A stream finishes its work after it was destroyed",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         CUstream stream = nullptr;
         return FirstFailure({granule.ready(),
                              scene.cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                              scene.cuda.MemsetD8Async(granule.at(), 5, granule.size(), stream),
                              scene.cuda.StreamDestroy(stream), scene.cuda.CtxSynchronize(),
                              ByteAt(scene, granule.at() + granule.size() - 1, 5)});
       }},
      {"A stream copies across and fills in the order of the calls",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Granule from(scene);
         const Granule to(scene);
         const OwnStream stream(scene);
         const size_t half = from.size() / 2;
         return FirstFailure(
             {from.ready(), to.ready(), stream.created(),
              scene.cuda.MemsetD8Async(from.at(), 3, from.size(), stream.get()),
              scene.cuda.MemcpyDtoDAsync(to.at(), from.at() + half, half, stream.get()),
              scene.cuda.MemsetD8Async(from.at() + half, 4, half, stream.get()),
              scene.cuda.MemcpyDtoDAsync(to.at() + half + 1, from.at() + half, half - 1,
                                         stream.get()),
              scene.cuda.MemsetD8Async(to.at() + half, 5, 1, stream.get()),
              scene.cuda.StreamSynchronize(stream.get()), ByteAt(scene, to.at() + half - 1, 3),
              ByteAt(scene, to.at() + half, 5), ByteAt(scene, to.at() + half + 1, 4),
              ByteAt(scene, to.at() + to.size() - 1, 4), ByteAt(scene, from.at(), 3)});
       }},
      {"A stream waits for an event of another",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         const OwnStream first(scene);
         const OwnStream second(scene);
         const OwnEvent event(scene, CU_EVENT_DISABLE_TIMING);
         const size_t half = granule.size() / 2;
         return FirstFailure(
             {granule.ready(), first.created(), second.created(), event.created(),
              scene.cuda.MemsetD8Async(granule.at(), 6, half, first.get()),
              scene.cuda.EventRecord(event.get(), first.get()),
              scene.cuda.StreamWaitEvent(second.get(), event.get(), 0),
              scene.cuda.MemcpyDtoDAsync(granule.at() + half, granule.at(), half, second.get()),
              scene.cuda.StreamSynchronize(second.get()),
              ByteAt(scene, granule.at() + granule.size() - 1, 6)});
       }},
      {"cuEventCreate refuses flags that are none",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return TryEventFlags(scene, 0x100); }},
      {"cuEventCreate refuses an event between processes that measures time",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return TryEventFlags(scene, CU_EVENT_INTERPROCESS); }},
      {"cuEventQuery tells that an event that was never recorded is done",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const OwnEvent event(scene);
         return FirstFailure({event.created(), scene.cuda.EventQuery(event.get())});
       }},
      {"cuEventElapsedTime measures between two recorded events",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int { return Elapsed(scene, CU_EVENT_DEFAULT, true); }},
      {"cuEventElapsedTime refuses events that were never recorded",
       {CUDA_ERROR_INVALID_HANDLE},
       [](Scene& scene) -> int { return Elapsed(scene, CU_EVENT_DEFAULT, false); }},
      {"cuEventElapsedTime refuses events without timing",
       {CUDA_ERROR_INVALID_HANDLE},
       [](Scene& scene) -> int { return Elapsed(scene, CU_EVENT_DISABLE_TIMING, true); }},
  };
}

}  // namespace tenure::conformance
