#include "tenure/buffer_recording.h"

#include <gtest/gtest.h>
#include <vector>

#include "tenure/errors.h"
#include "tests/client/plain_segments.h"

namespace tenure::client {
namespace {

class BufferRecordingTest : public testing::Test, protected PlainPool {};

TEST_F(BufferRecordingTest, ARecordingTellsWhatWasUsedFromWhenToWhen) {
  Timeline timeline;
  PoolBuffer before = Take(1);
  BufferRecording recording = *pool.Record();
  EXPECT_EQ(ErrorReason(pool.Record().status()), "RECORDING");
  PoolBuffer a = Take(100);                                                        // 0
  PoolBuffer b = *pool.Acquire(200, {.alignment = 512, .kind = BufferKind::kIo});  // 1
  EXPECT_TRUE(a.Release().ok());                                                   // 2
  EXPECT_TRUE(b.Release(Fence::At(timeline, 1)).ok());                             // 3
  const PoolBuffer c = Take(300);                                                  // 4
  EXPECT_TRUE(before.Release().ok());                                              // 5
  timeline.Advance(1);
  EXPECT_TRUE(Take(400, BufferKind::kWorkspace).Release(Fence::At(timeline, 2)).ok());  // 6, 7
  const std::vector<RecordedBuffer> expected = {
      {.bytes = 100, .alignment = 256, .first_step = 0, .end_step = 2},
      {.bytes = 200, .alignment = 512, .kind = BufferKind::kIo, .first_step = 1, .end_step = 6},
      {.bytes = 300, .alignment = 256, .first_step = 4},
      {.bytes = 400, .alignment = 256, .kind = BufferKind::kWorkspace, .first_step = 6}};
  EXPECT_EQ(recording.Finish(), expected);
  EXPECT_TRUE(recording.Finish().empty());
  EXPECT_TRUE(pool.Record().ok());
}

TEST_F(BufferRecordingTest, ARecordingNotesTheBuffersOfScopes) {
  Timeline timeline;
  BufferRecording recording = *pool.Record();
  BufferScope scope = pool.OpenScope();
  const ScopeBuffer kept = *scope.Acquire(100);  // 0
  ASSERT_TRUE(scope.Acquire(200, 512).ok());     // 1
  ASSERT_TRUE(scope.KeepUntil(kept, Fence::At(timeline, 1)).ok());
  ASSERT_TRUE(scope.Release().ok());  // 2
  Take(300).Release().IgnoreError();  // 3, 4
  timeline.Advance(1);
  const std::vector<RecordedBuffer> expected = {
      {.bytes = 100, .alignment = 256, .first_step = 0, .end_step = 5},
      {.bytes = 200, .alignment = 512, .first_step = 1, .end_step = 2},
      {.bytes = 300, .alignment = 256, .first_step = 3, .end_step = 4}};
  EXPECT_EQ(recording.Finish(), expected);
}

}  // namespace
}  // namespace tenure::client
