// The tasks that the page can run, by name.

import { Captioning } from "./tasks/captioning.js";
import { Classification } from "./tasks/classification.js";
import { Detection } from "./tasks/detection.js";
import { Embeddings } from "./tasks/embeddings.js";
import { ImageClassification } from "./tasks/image_classification.js";
import { ImageGeneration } from "./tasks/image_generation.js";
import { Language } from "./tasks/language.js";
import { MaskedLanguage } from "./tasks/masked_language.js";
import { Music } from "./tasks/music.js";
import { Recommendation } from "./tasks/recommendation.js";
import { SpeechRecognition } from "./tasks/speech_recognition.js";
import { Tagging } from "./tasks/tagging.js";
import { Translation } from "./tasks/translation.js";

export const TASKS = { captioning: Captioning, classification: Classification, detection: Detection, embeddings: Embeddings, image_classification: ImageClassification, image_generation: ImageGeneration, language: Language, masked_language: MaskedLanguage, music: Music, recommendation: Recommendation, speech_recognition: SpeechRecognition, tagging: Tagging, translation: Translation };
